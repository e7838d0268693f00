//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

// accelerated: the processor and the operating system have what the assembly needs.
var accelerated = cpu.X86.HasAVX2 && cpu.X86.HasFMA
