#define _DEFAULT_SOURCE /* usleep */
#include "process.h"

#include <unistd.h>

int process_threads_settle(int expected) {
    int count = process_threads();
    for (int wait = 0; count != expected && wait < 2000; wait++) {
        usleep(1000);
        count = process_threads();
    }
    return count;
}
