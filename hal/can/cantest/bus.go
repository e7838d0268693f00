// Package cantest is a CAN bus without hardware: a Unix socket that carries the kernel's frames,
// or, with OPTIBFM_VM in the environment, a virtual interface of the kernel. A test answers on it.
package cantest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"optibfm/hal/can"
)

// Bus is the far end. Several goroutines may use it.
type Bus struct {
	Address string // for can.Open

	remove func() error
	done   sync.WaitGroup

	mu   sync.Mutex
	conn io.ReadWriteCloser
	raw  [can.Size]byte
}

// New creates a bus. It passes every frame that the driver sends to handle, which may call Send.
func New(handle func(b *Bus, f can.Frame)) (*Bus, error) {
	if os.Getenv("OPTIBFM_VM") != "" {
		return newVirtual(handle)
	}
	folder, err := os.MkdirTemp("", "can")
	if err != nil {
		return nil, fmt.Errorf("cantest: %w", err)
	}
	path := filepath.Join(folder, "bus")
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		_ = os.RemoveAll(folder)
		return nil, fmt.Errorf("cantest: %w", err)
	}
	b := &Bus{Address: "unix:" + path}
	b.remove = func() error { return errors.Join(listener.Close(), os.RemoveAll(folder)) }
	b.done.Go(func() { b.serve(listener, handle) })
	return b, nil
}

// Close removes the interface.
func (b *Bus) Close() error {
	err := b.remove()
	b.mu.Lock()
	if b.conn != nil {
		_ = b.conn.Close()
	}
	b.mu.Unlock()
	b.done.Wait()
	return err
}

// serve serves one connection after the other.
func (b *Bus) serve(listener *net.UnixListener, handle func(*Bus, can.Frame)) {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.conn = conn
		b.mu.Unlock()
		b.receive(conn, handle)
	}
}

func (b *Bus) receive(conn io.Reader, handle func(*Bus, can.Frame)) {
	var raw [can.Size]byte
	for {
		n, err := conn.Read(raw[:])
		if errors.Is(err, unix.ENETDOWN) { // once, until the interface is up again
			continue
		}
		if err != nil || n == 0 {
			return
		}
		var f can.Frame
		if _, err := f.Unmarshal(&raw); err == nil && n == can.Size {
			handle(b, f)
		}
	}
}

// Send puts a frame on the bus. It is lost if the driver is not connected.
func (b *Bus) Send(f can.Frame) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.Marshal(&b.raw)
	b.write()
}

// Report sends an error frame of the controller with a class such as unix.CAN_ERR_BUSOFF.
func (b *Bus) Report(class uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	(&can.Frame{Len: 8}).Marshal(&b.raw)
	binary.NativeEndian.PutUint32(b.raw[:], class|unix.CAN_ERR_FLAG)
	b.write()
}

// write sends b.raw.
func (b *Bus) write() {
	if b.conn != nil {
		_, _ = b.conn.Write(b.raw[:])
	}
}
