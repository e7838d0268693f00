package control

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, seccomp(2). The low half of an argument comes first.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16
	dataArg1   = 24
)

// x32Calls is the first number of the x32 calls of amd64, which are other names of the same calls.
const x32Calls = 0x40000000

// filterSystemCalls denies the calling thread and its children what reaches a robot or an operator
// past the control process, and what needs no permission: a socket of the CAN bus (can(7)) and
// input into the terminal (TIOCSTI and TIOCLINUX, ioctl_tty(2)). io_uring, which can open sockets
// too, is denied with them. A kernel without filters has no such protection.
func filterSystemCalls() error {
	arch := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	filter := [...]unix.SockFilter{
		{Code: load, K: dataArch},
		{Code: equal, K: arch, Jf: 12}, // deny
		{Code: load, K: dataNumber},
		{Code: least, K: x32Calls, Jt: 10},               // deny
		{Code: equal, K: unix.SYS_IO_URING_SETUP, Jt: 9}, // deny
		{Code: equal, K: unix.SYS_SOCKET, Jt: 2},         // to the address family
		{Code: equal, K: unix.SYS_IOCTL, Jt: 3},          // to the request
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},           //
		{Code: load, K: dataArg0},                        // the address family
		{Code: equal, K: unix.AF_CAN, Jt: 4, Jf: 3},      // deny or allow
		{Code: load, K: dataArg1},                        // the request
		{Code: equal, K: unix.TIOCSTI, Jt: 2},            // deny
		{Code: equal, K: unix.TIOCLINUX, Jt: 1, Jf: 0},   // deny or allow
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},           //
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 && errno != unix.EINVAL {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
