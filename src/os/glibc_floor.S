/* Lets the library and the command run on glibc 2.27 and newer, whatever glibc they are linked
 * with.  glibc 2.34 moved libpthread, libdl and librt into libc and gave their functions new
 * versions; exp, pow, hypot and stat got theirs in other releases.  The old versions are the same
 * functions, and every later glibc has them.  Each hidden function here has the name that the other
 * objects, and static libraries, refer to, and goes on to the old version.
 * tests/repo/test_symbols.py fails where one is missing. */
#if defined(__x86_64__)
#define BASE GLIBC_2.2.5
#define BASE_DLMOPEN GLIBC_2.3.4
#define BRANCH_TARGET endbr64
#define CONTINUE_AT(function) jmp *function@GOTPCREL(%rip)
/* (path or file, buffer) becomes (layout of struct stat, path or file, buffer). */
#define PREPARE_STAT movq %rsi, %rdx; movq %rdi, %rsi; movl $1, %edi
#define PREPARE_START leaq gsc__run_constructors(%rip), %rcx
#elif defined(__aarch64__)
#define BASE GLIBC_2.17
#define BASE_DLMOPEN GLIBC_2.17
#define BRANCH_TARGET hint 34 /* bti c */
#define CONTINUE_AT(function)                                                                      \
    adrp x16, :got:function; ldr x16, [x16, :got_lo12:function]; br x16
#define PREPARE_STAT mov x2, x1; mov x1, x0; mov w0, 0
#define PREPARE_START adrp x3, gsc__run_constructors; add x3, x3, :lo12:gsc__run_constructors
#endif

#define FLOOR(name, prepare, old, version)                                                         \
    .globl name; .hidden name; .type name, %function; .symver gsc__old_##name, old@version;        \
    name: BRANCH_TARGET; prepare; CONTINUE_AT(gsc__old_##name); .size name, . - name
#define NOTHING
#define OLD(name) FLOOR(name, NOTHING, name, BASE)

    .text
OLD(dlclose)
OLD(dlerror)
OLD(dlopen)
OLD(dlsym)
OLD(exp)
OLD(pow)
OLD(pthread_attr_getstacksize)
OLD(pthread_attr_setstacksize)
OLD(pthread_create)
OLD(pthread_join)
OLD(pthread_mutex_trylock)
OLD(pthread_once)
OLD(pthread_sigmask)

#ifdef GSC_COMMAND
OLD(hypot)
FLOOR(stat64, PREPARE_STAT, __xstat64, BASE)
FLOOR(fstat64, PREPARE_STAT, __fxstat64, BASE)
/* Programs that are linked with glibc 2.34 leave it to the C library to call their constructors,
 * which older ones do only if they are told how. */
FLOOR(__libc_start_main, PREPARE_START, __libc_start_main, BASE)
/* The CUDA Runtime's. */
FLOOR(dlmopen, NOTHING, dlmopen, BASE_DLMOPEN)
OLD(dlvsym)
OLD(pthread_condattr_setpshared)
OLD(pthread_detach)
OLD(pthread_getspecific)
OLD(pthread_key_create)
OLD(pthread_key_delete)
OLD(pthread_kill)
OLD(pthread_mutexattr_destroy)
OLD(pthread_mutexattr_init)
OLD(pthread_mutexattr_setpshared)
OLD(pthread_mutexattr_settype)
OLD(pthread_rwlockattr_destroy)
OLD(pthread_rwlockattr_init)
OLD(pthread_rwlockattr_setpshared)
OLD(pthread_rwlock_destroy)
OLD(pthread_rwlock_init)
OLD(pthread_rwlock_rdlock)
OLD(pthread_rwlock_timedrdlock)
OLD(pthread_rwlock_timedwrlock)
OLD(pthread_rwlock_tryrdlock)
OLD(pthread_rwlock_trywrlock)
OLD(pthread_rwlock_unlock)
OLD(pthread_rwlock_wrlock)
OLD(pthread_setspecific)
OLD(sem_destroy)
OLD(sem_init)
OLD(sem_post)
OLD(sem_timedwait)
OLD(sem_trywait)
OLD(sem_wait)
OLD(shm_open)
OLD(shm_unlink)
#endif

#ifdef __CET__
#include <cet.h> /* marks the object as ready for it */
#endif
    .section .note.GNU-stack, "", %progbits
