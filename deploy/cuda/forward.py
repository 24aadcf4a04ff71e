"""Writes a library in C that passes calls on to another one, which it opens when the first call comes.

What is linked to it starts where that other library is missing, too: there every function answers 100, which is what
CUDA's driver calls "no device".

usage: forward.py LIBRARY < NAMES > SOURCE.c
"""

import sys

library = sys.argv[1]
# One for each library, as they become parts of one program.
slots = "slots_" + library.split(".")[0]
names = sorted(set(sys.stdin.read().split()))

print(f"""// Passes calls on to {library}; written by forward.py.
#define _GNU_SOURCE
#include <dlfcn.h>

static const char *const names[] = {{{", ".join(f'"{name}"' for name in names)}}};
static int missing(void) {{ return 100; }}
extern void *{slots}[] __attribute__((visibility("hidden")));

// Called once for each function, with what its caller gave it kept aside.
__attribute__((used)) static void *find(long index) {{
    static void *opened;
    if (!opened) opened = dlopen("{library}", RTLD_NOW | RTLD_LOCAL);
    void *found = opened ? dlsym(opened, names[index]) : 0;
    return {slots}[index] = found ? found : (void *)missing;
}}
""")
print('__asm__(".text\\n"')
for index, name in enumerate(names):
    print(f'".globl {name}\\n.type {name},@function\\n{name}: jmp *.Lslots+{8 * index}(%rip)\\n"')
    print(f'".Lfirst{index}: push ${index}\\n jmp .Lfirst\\n"')
registers = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"]
print('".Lfirst:\\n"')
for register in registers:
    print(f'" push %{register}\\n"')
print('" sub $128, %rsp\\n"')
for number in range(8):
    print(f'" movups %xmm{number}, {16 * number}(%rsp)\\n"')
print(f'" mov {128 + 8 * len(registers)}(%rsp), %rdi\\n call find\\n mov %rax, %r11\\n"')
for number in range(8):
    print(f'" movups {16 * number}(%rsp), %xmm{number}\\n"')
print('" add $128, %rsp\\n"')
for register in reversed(registers):
    print(f'" pop %{register}\\n"')
print('" add $8, %rsp\\n jmp *%r11\\n"')
print(f'".data\\n.balign 8\\n.globl {slots}\\n.hidden {slots}\\n{slots}:\\n.Lslots:\\n"')
for index in range(len(names)):
    print(f'" .quad .Lfirst{index}\\n"')
print('".text\\n");')
