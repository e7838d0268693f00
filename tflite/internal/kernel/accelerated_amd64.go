//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

// accelerated reports whether the processor and the operating system support the
// assembly's instructions.
var accelerated = cpu.X86.HasAVX2 && cpu.X86.HasFMA && hasF16C()
