/* One compiled image as read-only data: GSC_IMAGE_SYMBOL from GSC_IMAGE_FILE to
 * GSC_IMAGE_END.  The NUL ends PTX text. */
    .section .rodata, "a"
    .balign 64
    .globl GSC_IMAGE_SYMBOL
    .hidden GSC_IMAGE_SYMBOL
GSC_IMAGE_SYMBOL:
    .incbin GSC_IMAGE_FILE
    .globl GSC_IMAGE_END
    .hidden GSC_IMAGE_END
GSC_IMAGE_END:
    .byte 0
    .section .note.GNU-stack, "", %progbits
