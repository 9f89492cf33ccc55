/* What the two files that are compiled once per instruction set, cpu_isa.c and project.c,
 * share: names that end in that of the instruction set, which the build defines as GSC_ISA. */
#ifndef GSC_CPU_ISA_H
#define GSC_CPU_ISA_H

#define GSC__PASTE2(a, b) a##_##b
#define GSC__PASTE(a, b) GSC__PASTE2(a, b)
#define GSC__ISA_NAME(name) GSC__PASTE(name, GSC_ISA)

#endif
