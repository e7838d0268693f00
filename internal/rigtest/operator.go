package rigtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/warthog618/go-gpiocdev/uapi"
	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/console"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/evdev/evdevtest"
	"optibfm/rewardsrc/gpio"
	"optibfm/rewardsrc/keyboard"
	"optibfm/rewardsrc/panel"
	"optibfm/rewardsrc/remote"
	"optibfm/rewardsrc/scripted"
	"optibfm/rewardsrc/web"
)

// remoteButtons are presses of the buttons of a robot's remote control.
type remoteButtons chan rune

func (b remoteButtons) NextPress() (letter rune, at int64, ok bool) {
	select {
	case letter = <-b:
		return letter, rewardsrc.Monotonic(), true
	default:
		return 0, 0, false
	}
}

// Operators opens each kind of label source. press gives a good label on it.
var Operators = map[string]func(t *testing.T) (source rewardsrc.Source, press func()){
	configs.SourceKeyboard: func(t *testing.T) (rewardsrc.Source, func()) {
		person, terminal := OpenPTY(t)
		cfg := keyboard.DefaultConfig()
		cfg.RefractoryMS = 0
		k, err := keyboard.Open(cfg, keyboard.Options{Terminal: terminal, Display: func(keyboard.Notice) {}})
		fatal.If(t, err)
		return k, func() { WriteString(t, person, "+") }
	},
	configs.SourceConsole: func(t *testing.T) (rewardsrc.Source, func()) {
		in, person := io.Pipe()
		t.Cleanup(func() { _ = person.Close() })
		source := console.Open(console.Options{In: in, Out: io.Discard, Good: 1, Bad: -1})
		return source, func() { WriteString(t, person, "+\n") }
	},
	"evdev": func(t *testing.T) (rewardsrc.Source, func()) {
		machine := evdevtest.Machine{Dir: t.TempDir()}
		device := machine.Plug(PedalInfo("event3"), nil)
		cfg := evdev.DefaultConfig()
		cfg.Device.Name, cfg.Good, cfg.Bad, cfg.Labels.RefractoryMS = "FootSwitch", "KEY_A", "KEY_B", 0
		p, err := evdev.Open(cfg, evdev.Options{System: machine})
		fatal.If(t, err)
		return p, func() { device.Press(PedalGood) }
	},
	"gpio": func(t *testing.T) (rewardsrc.Source, func()) {
		read, write, err := os.Pipe()
		fatal.If(t, err)
		keepOpen(t, write)
		fatal.If(t, unix.SetNonblock(int(read.Fd()), true))
		cfg := gpio.DefaultConfig()
		cfg.Good, cfg.Bad, cfg.Labels.RefractoryMS = "0", "1", 0
		p, err := gpio.Open(cfg, gpio.Options{System: chip{read}})
		fatal.If(t, err)
		edges := uint32(0)
		return p, func() {
			for _, id := range []uapi.LineEventID{uapi.LineEventRisingEdge, uapi.LineEventFallingEdge} {
				edges++
				fatal.If(t, binary.Write(write, binary.NativeEndian,
					uapi.LineEvent{Timestamp: uint64(rewardsrc.Monotonic()), ID: id, Seqno: edges, LineSeqno: edges}))
			}
		}
	},
	configs.SourceWeb: func(t *testing.T) (rewardsrc.Source, func()) {
		cfg := web.DefaultConfig()
		cfg.Listen, cfg.RefractoryMS = "127.0.0.1:0", 0
		s, err := web.Open(cfg, web.Options{Period: 20 * time.Millisecond})
		fatal.If(t, err)
		p := PairPhone(t, text(s.Pairing().URL))
		conn := p.dial(t.Context())
		go func() { // until the source is halted
			for err := error(nil); err == nil; {
				_, _, err = conn.Read(t.Context())
			}
		}()
		presses := 0
		return s, func() {
			presses++
			press := fmt.Appendf(nil, `{"type":"press","id":%d,"kind":"good","at":1}`, presses)
			fatal.If(t, conn.Write(t.Context(), websocket.MessageText, press))
		}
	},
	configs.SourceRemote: func(t *testing.T) (rewardsrc.Source, func()) {
		cfg := remote.DefaultConfig()
		cfg.Labels.RefractoryMS = 0
		buttons := make(remoteButtons, 8)
		p, err := remote.Open(cfg, buttons, panel.Options{})
		fatal.If(t, err)
		return p, func() { buttons <- 'A' }
	},
	configs.SourceScripted: func(t *testing.T) (rewardsrc.Source, func()) {
		cfg := scripted.DefaultConfig()
		cfg.Blind = true
		o, err := scripted.New(cfg)
		fatal.If(t, err)
		tick := uint64(0)
		return o, func() {
			tick++
			o.Watch(tick, rewardsrc.Monotonic(), 1, true)
		}
	},
}

type text string

func (s text) String() string { return string(s) }

// chip is a gpio.System and gpio.Lines with a button on line 0. Its events come from a pipe.
type chip struct{ events *os.File }

func (c chip) Open(gpio.Config) (gpio.Lines, error)        { return c, nil }
func (c chip) Fd() int                                     { return int(c.events.Fd()) }
func (chip) Button(line uint32) (panel.Role, bool)         { return panel.Good, line == 0 }
func (chip) Pressed() (down [panel.NumRoles]bool, _ error) { return down, nil }
func (chip) Debounced() bool                               { return true }
func (chip) Set(gpio.Output, bool) error                   { return nil }
func (c chip) Close() error                                { return c.events.Close() }

// WriteString writes text or fails the test.
func WriteString(t *testing.T, to io.Writer, text string) {
	t.Helper()
	fatal.If(t, errtest.Of(io.WriteString(to, text)))
}

// OpenPTY returns both ends of a new pseudo-terminal. It skips the test if there are none.
func OpenPTY(t *testing.T) (person, terminal *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	keepOpen(t, person)
	fatal.If(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	fatal.If(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	fatal.If(t, err)
	keepOpen(t, terminal)
	return person, terminal
}

// keepOpen closes a file at the end of the test, not when it becomes garbage.
func keepOpen(t *testing.T, f *os.File) { t.Cleanup(func() { _ = f.Close() }) }

// PedalInfo describes a device with two buttons, KEY_A for good and KEY_B for bad.
func PedalInfo(node string) evdev.Info {
	info := evdev.Info{Node: node, Bus: 3, Vendor: 0x0c45, Product: 0x7403, Name: "FootSwitch"}
	info.Keys.Set(PedalGood)
	info.Keys.Set(PedalBad)
	return info
}

// PedalGood and PedalBad are key codes of the pedal.
const PedalGood, PedalBad = 30, 48
