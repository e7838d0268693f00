package keyboard

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/rewardsrctest"
)

var (
	_ rewardsrc.Source       = (*Keyboard)(nil)
	_ rewardsrc.Acknowledger = (*Keyboard)(nil)
	_ rewardsrc.Reachable    = (*Keyboard)(nil)
)

// terminalUser is a keyboard on a pseudo-terminal and its notices.
type terminalUser struct {
	*Keyboard
	person, terminal *os.File
	notices          []Notice
}

func newUser(t *testing.T, cfg Config, opts Options) *terminalUser {
	t.Helper()
	d := &terminalUser{}
	d.person, d.terminal = openPTY(t)
	opts.Terminal = d.terminal
	opts.Display = func(n Notice) { d.notices = append(d.notices, n) }
	k, err := Open(cfg, opts)
	fatal.If(t, err)
	d.Keyboard = k
	t.Cleanup(func() { errtest.Nil(t, k.Halt()) })
	return d
}

func (d *terminalUser) typeKeys(t *testing.T, keys string) {
	t.Helper()
	fatal.If(t, errtest.Of(d.person.WriteString(keys)))
}

func (d *terminalUser) labels(t *testing.T, n int) []rewardsrc.Label {
	t.Helper()
	return rewardsrctest.Labels(t, d, n)
}

func quick() Config {
	cfg := DefaultConfig()
	cfg.ReactionMS = 0
	cfg.NeutralValue, cfg.BadValue = 0, -1
	return cfg
}

func TestKeyboard_KeysGiveLabels(t *testing.T) {
	d := newUser(t, quick(), Options{})
	before := rewardsrc.Monotonic()
	d.typeKeys(t, "+")
	plus := d.labels(t, 1)[0]
	after := rewardsrc.Monotonic()
	if plus.Kind != rewardsrc.Value || plus.Value != 1 || plus.Tick != rewardsrc.NoTick || plus.Request != 0 {
		t.Errorf("+ gave %+v", plus)
	}
	if plus.At < before || plus.At > after {
		t.Errorf("pressed at %d, want from %d to %d", plus.At, before, after)
	}
	d.typeKeys(t, "-0u")
	got := d.labels(t, 3)
	if got[0].Value != -1 || got[1].Value != 0 || got[2].Kind != rewardsrc.Undo {
		t.Errorf("-0u gave %+v", got)
	}
}

func TestConfig_DigitsAreGrades(t *testing.T) {
	cfg := DefaultConfig()
	cfg.BadValue, cfg.GoodValue = 0, 2
	for key, want := range map[Key]float64{'1': 0, '3': 0.5, '5': 1, '9': 2} {
		if m, ok := cfg.inputOf(key); !ok || m.Value != want {
			t.Errorf("%c means %+v, %v; want %g", key, m, ok, want)
		}
	}
}

func TestKeyboard_ComparisonsAndGoalsLeaveRequestOpen(t *testing.T) {
	cfg := quick()
	cfg.GoodValue, cfg.BadValue = 3, -1
	d := newUser(t, cfg, Options{})
	d.Ask(rewardsrc.Request{ID: 5, Tick: 77, State: rewardsrc.Open})
	d.typeKeys(t, "><gu")
	got := d.labels(t, 4)
	for i, want := range []rewardsrc.Label{
		{Kind: rewardsrc.Comparison, Value: 1}, {Kind: rewardsrc.Comparison, Value: -1},
		{Kind: rewardsrc.Goal, Value: 2}, {Kind: rewardsrc.Undo},
	} {
		want.Tick, want.At = rewardsrc.NoTick, got[i].At
		if got[i] != want {
			t.Errorf("key %d gave %+v, want %+v", i+1, got[i], want)
		}
	}
	d.typeKeys(t, "+")
	if l := d.labels(t, 1)[0]; l.Request != 5 {
		t.Errorf("label %+v, want the answer to request 5", l)
	}
}

func TestKeyboard_PressAnswersRequest(t *testing.T) {
	d := newUser(t, quick(), Options{})
	d.Ask(rewardsrc.Request{ID: 5, Tick: 77, State: rewardsrc.Open})
	d.typeKeys(t, "7")
	if l := d.labels(t, 1)[0]; l.Request != 5 || l.Tick != 77 || l.Value != 0.5 {
		t.Errorf("label %+v, want 0.5 for request 5", l)
	}
	d.Ask(rewardsrc.Request{ID: 5, Tick: 77, State: rewardsrc.Answered})
	if len(d.notices) != 2 || d.notices[0].Event != Wanted || d.notices[1].Event != Closed {
		t.Errorf("notices %+v", d.notices)
	}
}

func TestKeyboard_ShowsOutcomes(t *testing.T) {
	d := newUser(t, quick(), Options{})
	d.Acknowledge(rewardsrc.Label{ID: 12, Kind: rewardsrc.Value, Value: 0.5})
	d.Refuse(rewardsrc.Label{Kind: rewardsrc.Undo}, errors.New("the ring is full"))
	want := []string{"label 0.5 saved (12)", "undo does NOT count: the ring is full"}
	for i, n := range d.notices {
		if n.Text != want[i] {
			t.Errorf("notice %q, want %q", n.Text, want[i])
		}
	}
}

func TestDecoder_HeldKeyIsOneLabel(t *testing.T) {
	cfg := DefaultConfig()
	d := decoder{cfg: &cfg}
	at, labels := int64(1e9), 0
	for range 30 {
		presses, _, _ := d.decode([]byte("+"), at)
		labels += len(presses)
		at += 33e6
	}
	if labels != 1 {
		t.Errorf("%d labels of a held key, want 1", labels)
	}
	if presses, _, _ := d.decode([]byte("-"), at); len(presses) != 1 {
		t.Error("another key did not count")
	}
	if presses, _, _ := d.decode([]byte("+"), at+300e6); len(presses) != 1 {
		t.Error("the key did not count again after its release")
	}
}

func TestKeyboard_PassesOtherKeys(t *testing.T) {
	keys := make(chan Key, 8)
	d := newUser(t, quick(), Options{OnKey: func(k Key) { keys <- k }})
	d.typeKeys(t, "q \x03")
	for _, want := range []Key{'q', ' ', CtrlC} {
		select {
		case got := <-keys:
			if got != want {
				t.Errorf("key %q, want %q", got, want)
			}
		case <-time.After(rewardsrctest.HangGuard):
			t.Fatalf("no key %q", want)
		}
	}
}

func TestKeyboard_BoundsAndReportsFlood(t *testing.T) {
	d := newUser(t, quick(), Options{})
	d.typeKeys(t, strings.Repeat("+-0123456789", 300))
	rewardsrctest.Eventually(t, "the flood ignored", func() bool { return d.Ignored() > 3000 })
	buf := make([]rewardsrc.Label, 512)
	if n := d.Poll(buf); n > queueLen {
		t.Errorf("%d labels of a paste", n)
	}
	if len(d.notices) == 0 || d.notices[0].Event != Ignored {
		t.Errorf("notices %+v, want the ignored keys", d.notices)
	}
}

func TestKeyboard_CountsPressesOnFullQueue(t *testing.T) {
	k := &Keyboard{inputs: make(chan rewardsrc.Input, 2), now: func() int64 { return 0 }, onKey: func(Key) {}}
	cfg := DefaultConfig()
	k.deliver(&decoder{cfg: &cfg}, []byte("+-0"))
	if len(k.inputs) != 2 || k.Ignored() != 1 {
		t.Errorf("%d queued, %d ignored; want 2 and 1", len(k.inputs), k.Ignored())
	}
}

func TestKeyboard_HaltRestoresTerminal(t *testing.T) {
	person, terminal := openPTY(t)
	before := modes(t, terminal)
	k, err := Open(quick(), Options{Terminal: terminal})
	fatal.If(t, err)
	if raw := modes(t, terminal); raw.Lflag&(unix.ECHO|unix.ICANON|unix.ISIG) != 0 || raw.Oflag != before.Oflag {
		t.Errorf("open: modes %+v are not raw, or change the output", raw)
	}
	for range 2 {
		fatal.If(t, k.Halt())
	}
	if modes(t, terminal) != before {
		t.Error("halted: the modes differ from the original ones")
	}
	waitForOutput(t, person, pasteOff)
}

// waitForOutput reads the output of the terminal up to want.
func waitForOutput(t *testing.T, person *os.File, want string) []byte {
	t.Helper()
	var shown []byte
	for buf := make([]byte, 256); !bytes.Contains(shown, []byte(want)); {
		n, err := person.Read(buf)
		if err != nil {
			t.Fatalf("shown %q, then %v; want %q", shown, err, want)
		}
		shown = append(shown, buf[:n]...)
	}
	return shown
}

func TestKeyboard_ReportsHangup(t *testing.T) {
	person, terminal := openPTY(t)
	var notices []Notice
	k, err := Open(quick(), Options{Terminal: terminal, Display: func(n Notice) { notices = append(notices, n) }})
	fatal.If(t, err)
	if !k.Reachable() {
		t.Error("the open terminal is not reachable")
	}
	person.Close()
	rewardsrctest.Eventually(t, "the loss", func() bool { return k.Err() != nil })
	if k.Reachable() {
		t.Error("the lost terminal is reachable")
	}
	if n := k.Poll(make([]rewardsrc.Label, 1)); n != 0 {
		t.Errorf("%d labels", n)
	}
	k.Poll(nil)
	if len(notices) != 1 || notices[0].Event != Lost {
		t.Errorf("notices %+v, want the loss, once", notices)
	}
	errtest.Nil(t, k.Halt())
}

func TestKeyboard_PrintsRequestAndRings(t *testing.T) {
	person, terminal := openPTY(t)
	k, err := Open(quick(), Options{Terminal: terminal})
	fatal.If(t, err)
	defer k.Halt()
	k.Ask(rewardsrc.Request{ID: 1, State: rewardsrc.Open})
	shown := waitForOutput(t, person, "\a")
	if !bytes.Contains(shown, []byte("label wanted: + good")) {
		t.Errorf("shown %q", shown)
	}
}

func TestKeyboard_StalledTerminalBlocksNothing(t *testing.T) {
	_, terminal := openPTY(t)
	k, err := Open(quick(), Options{Terminal: terminal})
	fatal.If(t, err)
	for range 5000 {
		k.Ask(rewardsrc.Request{ID: 1, State: rewardsrc.Open})
	}
	done := make(chan error)
	go func() { done <- k.Halt() }()
	select {
	case <-done:
	case <-time.After(rewardsrctest.HangGuard):
		t.Fatal("Halt hangs")
	}
}

func TestOpen_RefusesNonTerminal(t *testing.T) {
	f, err := os.Open(os.DevNull)
	fatal.If(t, err)
	defer f.Close()
	errtest.Is(t, errtest.Of(Open(quick(), Options{Terminal: f})), ErrNoTerminal)
}

func TestConfig_NamesBadKey(t *testing.T) {
	for key, change := range map[string]func(*Config){
		"good_value":    func(c *Config) { c.GoodValue = c.BadValue },
		"neutral_value": func(c *Config) { c.NeutralValue = 1e9 },
		"bad_value":     func(c *Config) { c.BadValue = -1e9 },
		"refractory_ms": func(c *Config) { c.RefractoryMS = -1 },
		"reaction_ms":   func(c *Config) { c.ReactionMS = 1e9 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		errtest.Contains(t, cfg.Validate(), key+" is ", key)
	}
	cfg := DefaultConfig()
	cfg.BadValue, cfg.GoodValue = 10, 20
	errtest.Contains(t, cfg.Validate(), "neutral_value is not between bad_value and good_value (0.5, 10, 20); use 15")
}

// TestMain makes the test binary a program that uses a keyboard and ends as
// KEYBOARD_TEST_END selects.
func TestMain(m *testing.M) {
	end := os.Getenv("KEYBOARD_TEST_END")
	if end == "" {
		os.Exit(m.Run())
	}
	k, err := Open(DefaultConfig(), Options{RestoreOnSignal: end == "signal", OnKey: func(Key) { panic("OnKey") }})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(2)
	}
	defer k.Halt()
	os.Stderr.WriteString("ready\n")
	if end == "panic" {
		panic("main")
	}
	select {}
}

// startProgram runs the program above on a terminal and waits until it is raw.
func startProgram(t *testing.T, end string, terminal *os.File) *exec.Cmd {
	t.Helper()
	program := exec.Command(os.Args[0])
	program.Env = append(os.Environ(), "KEYBOARD_TEST_END="+end)
	program.Stdin = terminal
	stderr, err := program.StderrPipe()
	fatal.If(t, err)
	fatal.If(t, program.Start())
	t.Cleanup(func() { _ = program.Process.Kill() })
	line := make([]byte, 6)
	if _, err := stderr.Read(line); err != nil || string(line) != "ready\n" {
		t.Fatalf("the program said %q, %v", line, err)
	}
	go func() { _, _ = bytes.NewBuffer(nil).ReadFrom(stderr) }()
	return program
}

func TestKeyboard_SignalRestoresTerminal(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		_, terminal := openPTY(t)
		before := modes(t, terminal)
		program := startProgram(t, "signal", terminal)
		if modes(t, terminal) == before {
			t.Fatal("the program did not change the terminal")
		}
		fatal.If(t, program.Process.Signal(sig))
		err := program.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(exit.String(), "signal") {
			t.Errorf("%v: the program ended with %v, want the signal's default effect", sig, err)
		}
		if modes(t, terminal) != before {
			t.Errorf("%v: the terminal is not restored", sig)
		}
	}
}

func TestKeyboard_PanicRestoresTerminal(t *testing.T) {
	for _, end := range []string{"panic", "key"} {
		person, terminal := openPTY(t)
		before := modes(t, terminal)
		program := startProgram(t, end, terminal)
		if end == "key" {
			fatal.If(t, errtest.Of(person.WriteString("x")))
		}
		errtest.NotNil(t, program.Wait(), end, ": the program ended well")
		if modes(t, terminal) != before {
			t.Errorf("%s: the terminal is not restored", end)
		}
	}
}

func TestSave_ParentRestoresAfterKill(t *testing.T) {
	_, terminal := openPTY(t)
	before := modes(t, terminal)
	restore, err := Save(terminal)
	fatal.If(t, err)
	program := startProgram(t, "kill", terminal)
	fatal.If(t, program.Process.Kill())
	_ = program.Wait()
	if modes(t, terminal) == before {
		t.Fatal("the killed program restored the terminal: the test shows nothing")
	}
	fatal.If(t, restore())
	if modes(t, terminal) != before {
		t.Error("the terminal is not restored")
	}
}

func TestKeyboard_KeysOnlyGivesNoLabelsAndKeepsSignals(t *testing.T) {
	keys := make(chan Key, 8)
	d := newUser(t, DefaultConfig(), Options{KeysOnly: true, OnKey: func(k Key) { keys <- k }})
	if m := modes(t, d.terminal); m.Lflag&unix.ISIG == 0 || m.Lflag&(unix.ECHO|unix.ICANON) != 0 {
		t.Errorf("the modes are %#x", m.Lflag)
	}
	d.typeKeys(t, "+d")
	for _, want := range []Key{'+', 'd'} {
		select {
		case got := <-keys:
			if got != want {
				t.Errorf("key %q, want %q", got, want)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("no key %q", want)
		}
	}
	if n := d.Poll(make([]rewardsrc.Label, 1)); n != 0 {
		t.Error("a key gave a label")
	}
}
