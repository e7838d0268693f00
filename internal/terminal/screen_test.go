package terminal

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/plaintext"
	"optibfm/internal/record"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
)

var UpdateGolden = flag.Bool("update", false, "write the golden frames anew")

// recordedTerminal collects what is written; its size can change.
type recordedTerminal struct {
	sync.Mutex
	bytes.Buffer
}

func (r *recordedTerminal) Write(p []byte) (int, error) {
	r.Lock()
	defer r.Unlock()
	return r.Buffer.Write(p)
}

func testTerminal(out *recordedTerminal, w, h int) *terminal {
	return &terminal{
		out: out, size: func() (int, int, error) { return w, h, nil },
		glyphs: &unicodeGlyphs, palette: &colours256,
	}
}

// newTestScreen is a screen in the middle of a run of made-up ticks.
func newTestScreen(t testing.TB, file configs.File, spec hal.Spec, ticks int) *screen {
	t.Helper()
	file.Controller.Gate.Kappa = 0.2
	out := &recordedTerminal{}
	s := newScreen(testTerminal(out, screenWidth, screenHeight))
	clock := time.Unix(0, 0)
	s.now = func() time.Time { return clock }
	shape := controller.Shape{Obs: len(spec.Obs), Action: len(spec.Action), Latent: 24}
	y := record.NewStatistics(shape)
	s.Begin(&setup.Session{File: file}, spec, []string{"fifo_priority", "lock_memory"}, y)
	t.Cleanup(s.End)
	tick := controller.NewTick(shape)
	for i := range ticks {
		clock = clock.Add(5 * time.Millisecond)
		fillTick(tick, i, file.Run.Steps(spec.Period))
		(&record.Recorder{Statistics: y, Display: s}).Tick(tick)
	}
	s.lateness, s.duration = [3]float64{60, 110, 320}, [3]float64{90, 250, 900}
	return s
}

func fillTick(t *controller.Tick, i, steps int) {
	*t.Header = controller.Header{Index: uint64(i), Elapsed: uint64(min(i, 1)), Flags: controller.FlagArmed | controller.FlagReward | controller.FlagReplanned}
	if steps > 0 {
		t.Episode, t.Step = uint32(i/(steps+1)), uint32(i%(steps+1))
		if t.Step == 0 {
			t.Flags |= controller.FlagEpisodeStart
		}
		if int(t.Step) == steps {
			t.Flags |= controller.FlagEpisodeEnd
		}
	}
	angle := float64(i) / 30
	t.Deadline = int64(i) * 50e6
	t.Wake, t.Done = t.Deadline+60e3, t.Deadline+150e3
	t.Reward, t.LogDet, t.PlanConfirmed, t.PlanScore = math.Sin(angle), float64(i)/10, uint64(max(i-3, 0)), 4.25
	t.DGap, t.Kappa = 2/(1+float64(i)/20), 0.2
	if t.DGap >= 0.2 {
		t.Flags |= controller.FlagGateOpen
	}
	for j := range t.Obs {
		t.Obs[j] = float32(math.Sin(angle + float64(j)))
	}
	t.Obs[0], t.Obs[1] = float32(0.7*math.Cos(angle)), float32(0.7*math.Sin(angle))
	if len(t.Obs) > 3 {
		t.Obs[2], t.Obs[3] = float32(-math.Sin(angle)), float32(math.Cos(angle))
	}
	for j := range t.Z {
		t.Z[j] = math.Sin(float64(j * j))
	}
	for j := range t.Action {
		t.Action[j] = float32(math.Cos(angle + float64(j)))
	}
	if i%20 == 10 {
		t.Flags |= controller.FlagAsked
		t.Request = uint64(i/20 + 1)
		t.NumLabels = 1
		t.Labels[0] = controller.AppliedLabel{ID: uint64(i/20 + 1), About: uint64(i - 1), Value: t.Reward, Weight: 1, Kind: rewardsrc.Value, Outcome: controller.Applied}
	}
}

// paint draws one frame as it is shown.
func paint(s *screen, w, h int) *canvas {
	c := &canvas{glyphs: s.terminal.glyphs}
	c.reset(w, h)
	s.draw(c)
	return c
}

func checkGolden(t *testing.T, name string, c *canvas) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := c.String()
	if *UpdateGolden {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: the frame differs (go test -update writes it anew); got\n%s\nwant\n%s", name, got, want)
	}
}

func TestTheScreenShowsTheRover(t *testing.T) {
	s := newTestScreen(t, configs.Default(), rigtest.RoverSpec(t), 500)
	s.Label(rewardsrc.Label{ID: 25, Kind: rewardsrc.Value, Value: 0.5}, nil)
	checkGolden(t, "rover", paint(s, 80, 24))
}

func TestTheScreenDoesWithoutUnicode(t *testing.T) {
	s := newTestScreen(t, configs.Default(), rigtest.RoverSpec(t), 500)
	s.terminal.glyphs = &asciiGlyphs
	frame := paint(s, 80, 24)
	checkGolden(t, "ascii", frame)
	for _, r := range frame.String() {
		if r > 0x7e {
			t.Fatalf("%q in a frame for ASCII", r)
		}
	}
}

func TestTheScreenAsksAPersonAndSaysWhichKeysThereAre(t *testing.T) {
	file := configs.Default()
	file.Operator.Source = configs.SourceKeyboard
	file.Run.DurationS, file.Run.EpisodeS = 0, 0
	s := newTestScreen(t, file, rigtest.RoverSpec(t), 91)
	s.Label(rewardsrc.Label{Kind: rewardsrc.Value, Value: 1}, errors.New("the disk is full"))
	s.Notice(keyboard.Notice{Event: keyboard.Ignored, Text: "12 keys ignored"})
	checkGolden(t, "wanted", paint(s, 80, 24))
}

func TestTheScreenShowsAnyRobotByItsChannels(t *testing.T) {
	file := configs.Default()
	file.Robot.Driver, file.Robot.Bridge.Task = configs.DriverBridge, "run"
	file.Controller.Gate.Off, file.Run.Lockstep = true, true
	spec := hal.Spec{Name: "dog", Period: 10 * time.Millisecond}
	for _, name := range strings.Fields("a bee body_height_above_ground d e f g h i j k l m n o p q r s t u v w x y z aa ab ac ad ae af ag ah") {
		spec.Obs = append(spec.Obs, hal.Channel{Name: name})
	}
	spec.Action = []hal.Channel{{Name: "left", Min: -1, Max: 1}, {Name: "right", Min: -1, Max: 1}}
	checkGolden(t, "channels", paint(newTestScreen(t, file, spec, 500), 80, 24))
	spec.Obs = spec.Obs[:8]
	checkGolden(t, "few-channels", paint(newTestScreen(t, file, spec, 500), 80, 24))
}

func TestTheScreenSaysHowMuchAPressCountedWhereLabelsAreDoubted(t *testing.T) {
	for _, c := range []struct {
		robust, share float64
		undo          bool
		want          string
		ink           ink
	}{
		{0.2, 0.34, false, "-1 (label 99), safe on disk, counted 0.34: it surprised the belief", inkAsk},
		{0.2, 0.9949, false, "-1 (label 99), safe on disk, counted 0.99: it surprised the belief", inkAsk},
		{0.2, 1, false, "-1 (label 99), safe on disk, counted 1.00", inkGood},
		{0.2, 0, true, "undo 99, safe on disk", inkGood},
		{0, 1, false, "-1 (label 99), safe on disk", inkGood},
	} {
		file := configs.Default()
		file.Controller.Robust, file.Controller.Sigma = c.robust, 0.2
		s := newTestScreen(t, file, rigtest.RoverSpec(t), 2)
		label := rewardsrc.Label{ID: 99, Kind: rewardsrc.Value, Value: -1}
		applied := controller.AppliedLabel{ID: 99, About: 1, Value: -1, Confidence: 1, Weight: 25 * c.share, Share: c.share, Kind: rewardsrc.Value, Outcome: controller.Applied}
		if c.undo {
			label.Kind, applied.Kind = rewardsrc.Undo, rewardsrc.Undo
		}
		s.Label(label, nil)
		tick := controller.NewTick(controller.Shape{Obs: len(s.spec.Obs), Action: len(s.spec.Action), Latent: 24})
		fillTick(tick, 2, 0)
		tick.NumLabels, tick.Labels[0] = 1, applied
		(&record.Recorder{Statistics: s.tally, Display: s}).Tick(tick)
		if s.saved.text != c.want || s.saved.ink != c.ink {
			t.Errorf("robust %g, share %g: %q, want %q", c.robust, c.share, s.saved.text, c.want)
		}
		if frame := paint(s, 80, 24).String(); !strings.Contains(frame, c.want+" ") {
			t.Errorf("the frame lacks %q:\n%s", c.want, frame)
		}
	}
}

func TestTheScreenSaysThatTheRobotWasHalted(t *testing.T) {
	s := newTestScreen(t, configs.Default(), rigtest.RoverSpec(t), 100)
	s.tally.Last.Fault = controller.FaultStalePlan
	s.Event(flightlog.Event{Level: flightlog.Error, Text: "robot halted: plan too old"})
	checkGolden(t, "halted", paint(s, 80, 24))
}

func TestTheScreenOfARealRobotSaysWhetherItMayMoveAndWhatToDo(t *testing.T) {
	file := configs.Default()
	file.Safety.Arm, file.Safety.AfterStop = configs.ArmOperator, configs.AfterStopHold
	file.Operator.Source = configs.SourceKeyboard
	s := newTestScreen(t, file, rigtest.RoverSpec(t), 100)
	s.session.Invoked = shell.Invocation{Program: "optibfm", Operate: []string{"-c", "robot.yaml"}}
	s.tally.Last.Flags &^= controller.FlagArmed
	checkGolden(t, "disarmed", paint(s, 80, 24))
	long := "./optibfm arm --socket /run/user/1000/optibfm/control-of-the-robot"
	s.session.Invoked = shell.Invocation{Program: "./optibfm", Operate: strings.Fields(long)[2:]}
	if frame := paint(s, 80, 24).String(); !strings.Contains(frame, " "+long+"\n") {
		t.Errorf("the frame lacks %q:\n%s", long, frame)
	}
	s.session.Invoked = shell.Invocation{Program: "optibfm", Operate: []string{"-c", "robot.yaml"}}
	s.tally.Last.Flags |= controller.FlagStopped
	s.tally.Last.Fault = controller.FaultEStop
	checkGolden(t, "stopped", paint(s, 80, 24))
}

func TestNothingThatComesFromElsewhereReachesTheTerminalAsAnEscape(t *testing.T) {
	const evil = "\x1b]0;owned\a\x1b[2J\r\n\u202e\u009b31m\xff日本e\u0301"
	file := configs.Default()
	file.Robot.Driver, file.Robot.Bridge.Task = configs.DriverBridge, evil
	spec := hal.Spec{Name: evil, Period: 50 * time.Millisecond, Obs: make([]hal.Channel, 3), Action: make([]hal.Channel, 1)}
	for i := range spec.Obs {
		spec.Obs[i].Name = evil
	}
	s := newTestScreen(t, file, spec, 60)
	s.missing = []string{evil}
	s.Event(flightlog.Event{Level: flightlog.Error, Text: evil})
	s.Label(rewardsrc.Label{}, errors.New(evil))
	for _, size := range [][2]int{{80, 24}, {40, 8}} {
		c := paint(s, size[0], size[1])
		for _, p := range c.cells {
			if p.glyph < ' ' || p.glyph == utf8.RuneError || plaintext.Clean(string(p.glyph)) != string(p.glyph) {
				t.Errorf("%d x %d: a cell holds %q", size[0], size[1], p.glyph)
			}
		}
	}
	var lines bytes.Buffer
	d := NewLineDisplay(&lines, false)
	d.Begin(s.session, spec, nil, s.tally)
	d.Event(flightlog.Event{Text: evil})
	d.Label(rewardsrc.Label{}, errors.New(evil))
	d.Notice(keyboard.Notice{Text: evil})
	if strings.ContainsAny(lines.String(), "\x1b\a\r\u009b\u202e") {
		t.Errorf("lines: %q", lines.String())
	}
}

func TestFramesOfAnySizeAndAnyNumbersCanBeDrawn(t *testing.T) {
	s := newTestScreen(t, configs.Default(), rigtest.RoverSpec(t), 300)
	last := &s.tally.Last
	for _, v := range []float64{0, math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		last.Reward, last.DGap, last.Kappa, last.LogDet, last.PlanScore, s.tally.Running = v, v, v, v, v, v
		last.Z[0], last.Action[0], last.Obs[0] = v, float32(v), float32(v)
		s.arena.Add(last, s.elapsed()+time.Hour)
		s.history.Add(s.elapsed(), v, true, 1)
		for _, size := range [][2]int{{1, 1}, {79, 24}, {80, 23}, {80, 24}, {81, 60}, {200, 24}, {300, 100}} {
			c := paint(s, size[0], size[1])
			if lines := strings.Count(c.String(), "\n"); lines != size[1] {
				t.Fatalf("%v: %d lines", size, lines)
			}
		}
	}
}

// stuckTerminal does not read until it is released.
type stuckTerminal struct{ release chan struct{} }

func (s stuckTerminal) Write(p []byte) (int, error) {
	<-s.release
	return len(p), nil
}

func TestFramesAreDroppedWhileTheTerminalDoesNotRead(t *testing.T) {
	stuck := stuckTerminal{make(chan struct{})}
	defer close(stuck.release)
	term := testTerminal(nil, 80, 24)
	term.out = stuck
	term.start()
	taken := 0
	for range 100 { // would block for ever if anything waited
		if c := term.frame(); c != nil {
			taken++
			term.show(c)
		}
	}
	if taken == 0 {
		t.Error("no frame was taken at all")
	}
	term.Close()
	term.Close()
	if term.frame() != nil {
		t.Error("a closed terminal takes frames")
	}
}

func TestTheEndGivesTheTerminalBack(t *testing.T) {
	out := &recordedTerminal{}
	s := newScreen(testTerminal(out, 80, 24))
	s.End() // before it began: nothing to give back
	if out.Len() != 0 {
		t.Errorf("wrote %q", out.String())
	}
	spec := rigtest.RoverSpec(t)
	s.Begin(&setup.Session{File: configs.Default()}, spec, nil, record.NewStatistics(controller.Shape{Obs: 6, Action: 2, Latent: 4}))
	s.End()
	s.End()
	if got := out.String(); !strings.HasPrefix(got, enterScreen) || !strings.HasSuffix(got, leaveScreen) || strings.Count(got, leaveScreen) != 1 {
		t.Errorf("wrote %q", got)
	}
}

// replay is the least of a terminal: it follows cursor addresses and text.
func replay(t *testing.T, old []rune, w int, frame []byte) []rune {
	t.Helper()
	at := 0
	for rest := string(frame); rest != ""; {
		if !strings.HasPrefix(rest, "\x1b[") {
			r, n := utf8.DecodeRuneInString(rest)
			old[at] = r
			at++
			rest = rest[n:]
			continue
		}
		end := strings.IndexAny(rest, "Hm")
		if rest[end] == 'H' {
			row, column, _ := strings.Cut(rest[2:end], ";")
			at = (number10(t, row)-1)*w + number10(t, column) - 1
		}
		rest = rest[end+1:]
	}
	return old
}

func number10(t *testing.T, s string) int {
	t.Helper()
	n := 0
	for _, r := range s {
		n = 10*n + int(r-'0')
	}
	return n
}

func TestADifferenceTurnsTheOldFrameIntoTheNewOne(t *testing.T) {
	s := newTestScreen(t, configs.Default(), rigtest.RoverSpec(t), 120)
	old := paint(s, 80, 24)
	s.Label(rewardsrc.Label{ID: 3, Kind: rewardsrc.Undo}, nil)
	s.tally.Last.Index += 7
	fresh := paint(s, 80, 24)
	shown := make([]rune, 80*24)
	shown = replay(t, shown, 80, old.encode(nil, nil, &colours256))
	difference := fresh.encode(nil, old, &colours256)
	shown = replay(t, shown, 80, difference)
	for i, r := range shown {
		if r != fresh.cells[i].glyph {
			t.Fatalf("row %d column %d shows %q instead of %q", i/80, i%80, r, fresh.cells[i].glyph)
		}
	}
	if whole := fresh.encode(nil, nil, &colours256); len(difference) > len(whole)/2 {
		t.Errorf("a small difference takes %d bytes, a frame %d", len(difference), len(whole))
	}
	if same := fresh.encode(nil, fresh, &colours256); len(same) != 0 {
		t.Errorf("no difference takes %d bytes", len(same))
	}
}

func TestAPersonHearsThatALabelIsWanted(t *testing.T) {
	file := configs.Default()
	file.Operator.Source = configs.SourceKeyboard
	s := newTestScreen(t, file, rigtest.RoverSpec(t), 10)
	s.Notice(keyboard.Notice{Event: keyboard.Wanted})
	if !s.bell {
		t.Error("no bell")
	}
	s.bell = false
	s.session.File.Operator.Keyboard.Bell = false
	s.Notice(keyboard.Notice{Event: keyboard.Wanted})
	if s.bell {
		t.Error("a bell that nobody wants")
	}
}

func TestTheEnvironmentChoosesGlyphsAndColours(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(key string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == key {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	for _, c := range []struct {
		terminal string
		env      func(string) string
		glyphs   *glyphs
		palette  *palette
	}{
		{"xterm-256color", env("LANG", "de_DE.UTF-8"), &unicodeGlyphs, &colours256},
		{"xterm", env("LANG", "en_US.utf8", "COLORTERM", "truecolor"), &unicodeGlyphs, &trueColours},
		{"xterm", env("LANG", "en_US.UTF-8", "LC_ALL", "C", "NO_COLOR", "1"), &asciiGlyphs, &monochrome},
		{"linux", env("LANG", "en_US.UTF-8"), &asciiGlyphs, &colours16},
		{"vt220", env(), &asciiGlyphs, &colours16},
	} {
		if chooseGlyphs(c.terminal, c.env) != c.glyphs {
			t.Errorf("%s: other glyphs", c.terminal)
		}
		if choosePalette(c.terminal, c.env) != c.palette {
			t.Errorf("%s: another palette", c.terminal)
		}
	}
}

func TestOnlyATerminalGetsTheFullScreen(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, d := range []Display{NewDisplay(file, ShowAuto), NewDisplay(&bytes.Buffer{}, ShowAuto)} {
		if _, ok := d.(*LineDisplay); !ok {
			t.Errorf("chose a %T", d)
		}
	}
}

func BenchmarkScreenFrame(b *testing.B) {
	s := newTestScreen(b, configs.Default(), rigtest.RoverSpec(b), 500)
	old, c := paint(s, 80, 24), &canvas{glyphs: s.terminal.glyphs}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		s.tally.Last.Index++
		c.reset(80, 24)
		s.draw(c)
		buf = c.encode(buf[:0], old, s.terminal.palette)
		old, c = c, old
	}
}

func BenchmarkScreenTickWithoutFrame(b *testing.B) {
	s := newTestScreen(b, configs.Default(), rigtest.RoverSpec(b), 500)
	s.now = func() time.Time { return s.drawn }
	tick := controller.NewTick(controller.Shape{Obs: 6, Action: 2, Latent: 24})
	i := 500
	b.ReportAllocs()
	for b.Loop() {
		fillTick(tick, i, 200)
		s.tally.Last.Index = uint64(i)
		s.Tick(tick)
		i++
	}
}
