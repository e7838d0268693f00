package keyboard

import (
	"errors"
	"fmt"
	"io"
	"math"

	"golang.org/x/sys/unix"
)

// read runs until Halt or until the terminal is gone.
func (k *Keyboard) read() {
	defer k.restoreOnPanic()
	d := decoder{cfg: &k.cfg}
	buf := make([]byte, 4096)
	for {
		n, err := k.wait(buf)
		if err != nil {
			lost := fmt.Errorf("keyboard: %s: lost (%w): no more labels come from it", k.terminal.Name(), err)
			k.lost.Store(&lost)
			return
		}
		if n == 0 {
			return
		}
		k.deliver(&d, buf[:n])
	}
}

// restoreOnPanic helps where the defer of whoever opened the keyboard does not:
// a panic of OnKey ends the process from this goroutine.
func (k *Keyboard) restoreOnPanic() {
	if r := recover(); r != nil {
		_ = k.restore() // the panic is the news
		panic(r)
	}
}

// wait blocks until bytes came, and returns 0 after Halt.
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
	presses, others, ignored := d.decode(input, k.now())
	for _, p := range presses {
		select {
		case k.presses <- p:
		default:
			ignored++
		}
	}
	k.ignored.Add(uint64(ignored))
	for _, key := range others {
		k.onKey(key)
	}
}

// decoder turns what one read brought into presses.
type decoder struct {
	cfg     *Config
	parser  parser
	lastAt  [128]int64 // when each key was last seen
	seen    [128]bool
	presses []press
	others  []Key
}

// decode returns the presses and the other keys of one read, valid until the
// next call, and the number of keys that were ignored. More than a handful of
// keys is a paste: of it, Ctrl-C alone counts.
func (d *decoder) decode(input []byte, at int64) (presses []press, others []Key, ignored int) {
	d.presses, d.others = d.presses[:0], d.others[:0]
	d.parser.begin(at)
	keys, interrupted := 0, false
	for _, b := range input {
		key, ok := d.parser.feed(b)
		if !ok {
			continue
		}
		keys++
		interrupted = interrupted || key == CtrlC
		if keys <= handful {
			d.take(key, at)
		}
	}
	ignored = d.parser.takePasted()
	if keys <= handful {
		return d.presses, d.others, ignored
	}
	d.presses, d.others = d.presses[:0], d.others[:0]
	if interrupted {
		d.others = append(d.others, CtrlC)
	}
	return d.presses, d.others, ignored + keys - len(d.others)
}

func (d *decoder) take(key Key, at int64) {
	m, ok := d.cfg.meaningOf(key)
	if !ok {
		d.others = append(d.others, key)
		return
	}
	since := int64(math.MaxInt64)
	if d.seen[key] {
		since = at - d.lastAt[key]
	}
	d.seen[key], d.lastAt[key] = true, at
	if since >= int64(d.cfg.RefractoryMS*1e6) {
		d.presses = append(d.presses, press{meaning: m, at: at})
	}
}
