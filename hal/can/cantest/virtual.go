package cantest

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"optibfm/hal/can"
)

// created counts the virtual interfaces of this process.
var created atomic.Int32

// newVirtual creates a virtual interface, which needs root and the module vcan.
func newVirtual(handle func(*Bus, can.Frame)) (*Bus, error) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = fmt.Sprintf("vcan%d", created.Add(1))
	link := &netlink.GenericLink{LinkAttrs: attributes, LinkType: "vcan"}
	if err := netlink.LinkAdd(link); err != nil {
		return nil, fmt.Errorf("cantest: %s: %w", attributes.Name, err)
	}
	b := &Bus{Address: attributes.Name, remove: func() error { return netlink.LinkDel(link) }}
	err := netlink.LinkSetUp(link)
	if err == nil {
		b.conn, err = bind(link.Attrs().Index)
	}
	if err != nil {
		_ = b.remove()
		return nil, fmt.Errorf("cantest: %s: %w", b.Address, err)
	}
	b.done.Go(func() { b.receive(b.conn, handle) })
	return b, nil
}

// bind opens a socket that receives the frames of an interface.
func bind(index int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_CAN, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.CAN_RAW)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "can")
	if err := unix.Bind(fd, &unix.SockaddrCAN{Ifindex: index}); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
