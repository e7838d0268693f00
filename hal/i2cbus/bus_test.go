package i2cbus

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// fakeKernel is an adapter that echoes what was written, upside down.
type fakeKernel struct {
	funcs   uint64
	set     map[uint]uintptr
	fails   map[uint]syscall.Errno
	written []byte
	addr    uint16
}

func (k *fakeKernel) calls() kernel {
	return kernel{
		set: func(_ uintptr, request uint, value uintptr) syscall.Errno {
			k.set[request] = value
			return k.fails[request]
		},
		point: func(_ uintptr, request uint, at unsafe.Pointer) syscall.Errno {
			if request == ioctlFuncs {
				*(*uint64)(at) = k.funcs
				return k.fails[request]
			}
			k.transfer((*transfer)(at))
			return k.fails[request]
		},
	}
}

func (k *fakeKernel) transfer(t *transfer) {
	k.written = k.written[:0]
	for _, m := range unsafe.Slice((*message)(t.messages), t.count) {
		data := unsafe.Slice((*byte)(m.data), m.length)
		k.addr = m.addr
		if m.flags&flagRead == 0 {
			k.written = append(k.written, data...)
			continue
		}
		for i := range data {
			data[i] = ^k.written[0] + byte(i)
		}
	}
}

func newFakeBus(t *testing.T, k *fakeKernel, timeout time.Duration) (*Bus, error) {
	t.Helper()
	k.set = map[uint]uintptr{}
	b, err := open(os.DevNull, timeout, k.calls())
	if err == nil {
		t.Cleanup(func() { b.Close() })
	}
	return b, err
}

func TestOpen_SetsTransferTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]uintptr{
		time.Millisecond: 1, 10 * time.Millisecond: 1, 11 * time.Millisecond: 2, time.Second: 100,
	} {
		k := &fakeKernel{funcs: funcI2C}
		fatal.If(t, errtest.Of(newFakeBus(t, k, timeout)))
		if retries, ok := k.set[ioctlRetries]; k.set[ioctlTimeout] != want || retries != 0 || !ok {
			t.Errorf("%v: found %v, want the time-out %d and no retries", timeout, k.set, want)
		}
	}
}

func failing(request uint, errno syscall.Errno) map[uint]syscall.Errno {
	return map[uint]syscall.Errno{request: errno}
}

func TestOpen_RefusesBusWithoutTimeout(t *testing.T) {
	for wantText, c := range map[string]struct {
		kernel  fakeKernel
		timeout time.Duration
	}{
		"out of range":      {fakeKernel{funcs: funcI2C}, 0},
		"up to 1s":          {fakeKernel{funcs: funcI2C}, 2 * time.Second},
		"SMBus":             {fakeKernel{funcs: 0xff0000}, DefaultTimeout},
		"not an I²C bus":    {fakeKernel{fails: failing(ioctlFuncs, syscall.ENOTTY)}, DefaultTimeout},
		"timeout could not": {fakeKernel{funcs: funcI2C, fails: failing(ioctlTimeout, syscall.EPERM)}, DefaultTimeout},
		"retries could not": {fakeKernel{funcs: funcI2C, fails: failing(ioctlRetries, syscall.EPERM)}, DefaultTimeout},
	} {
		errtest.Contains(t, errtest.Of(newFakeBus(t, &c.kernel, c.timeout)), wantText, wantText)
	}
}

func TestTx_WritesThenReads(t *testing.T) {
	k := &fakeKernel{funcs: funcI2C}
	b, err := newFakeBus(t, k, DefaultTimeout)
	fatal.If(t, err)
	r := make([]byte, 3)
	fatal.If(t, b.Tx(0x68, []byte{0x3b}, r))
	if k.addr != 0x68 || !slices.Equal(k.written, []byte{0x3b}) || !slices.Equal(r, []byte{0xc4, 0xc5, 0xc6}) {
		t.Errorf("address %#x, wrote %x, read %x", k.addr, k.written, r)
	}
	errtest.Nil(t, b.Tx(0x68, nil, nil), "nothing to do")
}

func TestTx_RefusesInvalidSize(t *testing.T) {
	b, err := newFakeBus(t, &fakeKernel{funcs: funcI2C}, DefaultTimeout)
	fatal.If(t, err)
	for _, addr := range []uint16{0, 7, 0x78, 0x400} {
		if err := b.Tx(addr, []byte{0}, nil); !errors.Is(err, errAddress) {
			t.Errorf("%#x: %v", addr, err)
		}
	}
	errtest.Is(t, b.Tx(0x68, make([]byte, maxMsg+1), nil), errLength)
}

func TestTx_KeepsErrno(t *testing.T) {
	k := &fakeKernel{funcs: funcI2C, fails: map[uint]syscall.Errno{ioctlRdwr: syscall.EREMOTEIO}}
	b, err := newFakeBus(t, k, DefaultTimeout)
	fatal.If(t, err)
	errtest.Is(t, b.Tx(0x68, []byte{1}, nil), syscall.EREMOTEIO)
}

// TestTx_ReopensRemovedAdapter deletes the node of the bus as the kernel does.
// TestKernel_ReopensUnpluggedAdapter does the same with an adapter.
func TestTx_ReopensRemovedAdapter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "i2c-9")
	node := func() { fatal.If(t, os.WriteFile(path, nil, 0o600)) }
	node()
	k := &fakeKernel{funcs: funcI2C, set: map[uint]uintptr{}}
	b, err := open(path, DefaultTimeout, k.calls())
	fatal.If(t, err)
	tx := func() error { return b.Tx(0x68, []byte{1}, nil) }
	k.fails = failing(ioctlRdwr, syscall.ETIMEDOUT)
	if err := tx(); err != syscall.ETIMEDOUT {
		t.Errorf("node present: %v", err)
	}
	os.Remove(path)
	for _, want := range []string{"removed, open", "removed, closed"} {
		if err := tx(); err != ErrRemoved {
			t.Errorf("%s: %v", want, err)
		}
	}
	errtest.Is(t, errtest.Of(b.file.Stat()), os.ErrClosed, "the removed adapter stays open")
	node()
	k.fails = nil
	b.reopen = time.Now().Add(time.Hour)
	if err := tx(); err != ErrRemoved {
		t.Errorf("before the interval: %v", err)
	}
	b.reopen = time.Now().Add(-time.Nanosecond)
	errtest.Nil(t, tx(), "after the interval")
	errtest.Nil(t, b.Close())
}

func TestTx_AllocatesNothing(t *testing.T) {
	k := &fakeKernel{funcs: funcI2C, written: make([]byte, 0, 16)}
	b, err := newFakeBus(t, k, DefaultTimeout)
	fatal.If(t, err)
	w, r := []byte{0x3b}, make([]byte, 14)
	for _, errno := range []syscall.Errno{0, syscall.EREMOTEIO, syscall.ETIMEDOUT} {
		k.fails = map[uint]syscall.Errno{ioctlRdwr: errno}
		if n := testing.AllocsPerRun(100, func() { _ = b.Tx(0x68, w, r) }); n != 0 {
			t.Errorf("errno %d: %v allocations", errno, n)
		}
	}
}

func TestOpen_ExplainsMissingBus(t *testing.T) {
	errtest.Contains(t, errtest.Of(Open("/dev/i2c-no-such", DefaultTimeout)), "i2cdetect")
	errtest.Contains(t, errtest.Of(Open(os.DevNull, DefaultTimeout)), "not an I²C bus")
}
