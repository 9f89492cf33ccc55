/* One compiled image as read-only data: GSC_IMAGE_SYMBOL from GSC_IMAGE_FILE to
 * GSC_IMAGE_END.  The NUL ends PTX text. */
#if defined(_WIN32)
#define HIDDEN(symbol) /* what a DLL does not export is hidden */
    .section .rdata, "dr"
#else
#define HIDDEN(symbol) .hidden symbol
    .section .rodata, "a"
#endif
    .balign 64
    .globl GSC_IMAGE_SYMBOL
    HIDDEN(GSC_IMAGE_SYMBOL)
GSC_IMAGE_SYMBOL:
    .incbin GSC_IMAGE_FILE
    .globl GSC_IMAGE_END
    HIDDEN(GSC_IMAGE_END)
GSC_IMAGE_END:
    .byte 0
#if !defined(_WIN32)
#ifdef __CET__
#include <cet.h> /* marks the object as ready for it */
#endif
    .section .note.GNU-stack, "", %progbits
#endif
