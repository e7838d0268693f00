package ipc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Sockets returns the two ends of a connection between the control process and the host process.
func Sockets(name string) (control, host *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("control: socket of the %s: %w", name, err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}

// SendFile passes an open file to the process at the other end of a socket.
func SendFile(socket, f *os.File) error {
	return unix.Sendmsg(int(socket.Fd()), []byte{0}, unix.UnixRights(int(f.Fd())), nil, unix.MSG_NOSIGNAL)
}

// ReceiveFile waits for a file from SendFile. If the other end is closed before that, it returns
// nil without an error.
func ReceiveFile(socket *os.File) (*os.File, error) {
	data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, size, _, _, err := unix.Recvmsg(int(socket.Fd()), data, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, errors.New("a message without a file")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), socket.Name()), nil
}
