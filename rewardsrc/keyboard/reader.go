package keyboard

import (
	"errors"
	"fmt"
	"io"
	"math"

	"golang.org/x/sys/unix"

	"optibfm/rewardsrc"
)

// read runs until Halt or until the terminal closes.
func (k *Keyboard) read() {
	defer k.restoreOnPanic()
	d := decoder{cfg: &k.cfg, keysOnly: k.keysOnly}
	buf := make([]byte, 4096)
	for {
		n, err := k.wait(buf)
		if err != nil {
			lost := fmt.Errorf("keyboard: %s: lost (%w); check the terminal, then restart the run", k.terminal.Name(), err)
			k.lost.Store(&lost)
			return
		}
		if n == 0 {
			return
		}
		k.deliver(&d, buf[:n])
	}
}

// restoreOnPanic restores the terminal when OnKey panics: the caller's deferred
// Halt does not run on this goroutine.
func (k *Keyboard) restoreOnPanic() {
	if r := recover(); r != nil {
		_ = k.restore() // the panic matters more
		panic(r)
	}
}

// wait blocks until bytes arrive. It returns 0 after Halt.
func (k *Keyboard) wait(buf []byte) (int, error) {
	fds := []unix.PollFd{
		{Fd: int32(k.terminal.Fd()), Events: unix.POLLIN},
		{Fd: int32(k.wakeRead.Fd()), Events: unix.POLLIN},
	}
	for {
		_, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if fds[1].Revents != 0 {
			return 0, nil
		}
		n, err := unix.Read(int(fds[0].Fd), buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// deliver hands the presses of one read to Poll, and the other keys to OnKey.
func (k *Keyboard) deliver(d *decoder, input []byte) {
	inputs, others, ignored := d.decode(input, k.now())
	for _, in := range inputs {
		select {
		case k.inputs <- in:
		default:
			ignored++
		}
	}
	k.ignored.Add(uint64(ignored))
	for _, key := range others {
		k.onKey(key)
	}
}

// decoder converts the bytes of one read to presses.
type decoder struct {
	cfg      *Config
	keysOnly bool // no key gives a label
	parser   parser
	lastAt   [128]int64 // when each key was last seen
	seen     [128]bool
	inputs   []rewardsrc.Input
	others   []Key
}

// decode returns the presses and the other keys of one read, valid until the
// next call, and the number of ignored keys. More than maxKeys keys are a paste,
// of which only Ctrl-C counts.
func (d *decoder) decode(input []byte, at int64) (inputs []rewardsrc.Input, others []Key, ignored int) {
	d.inputs, d.others = d.inputs[:0], d.others[:0]
	d.parser.begin(at)
	keys, interrupted := 0, false
	for _, b := range input {
		key, ok := d.parser.feed(b)
		if !ok {
			continue
		}
		keys++
		interrupted = interrupted || key == CtrlC
		if keys <= maxKeys {
			d.take(key, at)
		}
	}
	ignored = d.parser.takePasted()
	if keys <= maxKeys {
		return d.inputs, d.others, ignored
	}
	d.inputs, d.others = d.inputs[:0], d.others[:0]
	if interrupted {
		d.others = append(d.others, CtrlC)
	}
	return d.inputs, d.others, ignored + keys - len(d.others)
}

func (d *decoder) take(key Key, at int64) {
	in, ok := d.cfg.inputOf(key)
	if !ok || d.keysOnly {
		d.others = append(d.others, key)
		return
	}
	since := int64(math.MaxInt64)
	if d.seen[key] {
		since = at - d.lastAt[key]
	}
	d.seen[key], d.lastAt[key] = true, at
	if since >= int64(d.cfg.RefractoryMS*1e6) {
		in.At = at
		d.inputs = append(d.inputs, in)
	}
}
