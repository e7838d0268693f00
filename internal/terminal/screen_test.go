package terminal

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gdamore/tcell/v2"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/internal/fatal"
	"optibfm/internal/plaintext"
	"optibfm/internal/recorder"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
)

var updateGolden = flag.Bool("update", false, "write the golden frames in testdata")

func newSimulation(t testing.TB, w, h int) tcell.SimulationScreen {
	t.Helper()
	screen := tcell.NewSimulationScreen("UTF-8")
	fatal.If(t, screen.Init())
	screen.SetSize(w, h)
	return screen
}

// paint draws one frame of a size.
func paint(t testing.TB, s *screenDisplay, w, h int) tcell.SimulationScreen {
	t.Helper()
	screen := newSimulation(t, w, h)
	c := &canvas{glyphs: s.terminal.canvas.glyphs, palette: newPalette(256)}
	c.clear(w, h)
	s.draw(c)
	c.copyTo(screen)
	screen.Show()
	return screen
}

// paintText returns one frame of a size as text, without blanks at the ends of lines.
func paintText(t testing.TB, s *screenDisplay, w, h int) string {
	t.Helper()
	cells, _, _ := paint(t, s, w, h).GetContents()
	var b strings.Builder
	for y := range h {
		line := ""
		for _, cell := range cells[y*w : (y+1)*w] {
			line += string(cell.Runes)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// newTestScreen returns a display after a number of synthetic ticks.
func newTestScreen(t testing.TB, file configs.File, spec hal.Spec, ticks int) *screenDisplay {
	t.Helper()
	file.Controller.Gate.Kappa = 0.2
	s := newScreenDisplay(&terminal{
		screen: newSimulation(t, screenWidth, screenHeight),
		canvas: canvas{glyphs: &unicodeGlyphs, palette: newPalette(256)},
	})
	clock := time.Unix(0, 0)
	s.now = func() time.Time { return clock }
	shape := controller.Shape{Obs: len(spec.Obs), Action: len(spec.Action), Latent: 24}
	y := recorder.NewStatistics(shape)
	s.Begin(&setup.Session{File: file}, spec, []string{"fifo_priority", "lock_memory"}, y)
	s.End() // paint draws on another screen
	tick := controller.NewTick(shape)
	for i := range ticks {
		clock = clock.Add(5 * time.Millisecond)
		fillTick(tick, i, file.Run.Steps(spec.Period))
		(&recorder.Recorder{Statistics: y, Display: s}).Tick(tick)
	}
	s.lateness, s.duration = [3]float64{60, 110, 320}, [3]float64{90, 250, 900}
	return s
}

func fillTick(t *controller.Tick, i, steps int) {
	*t.Header = controller.Header{
		Index: uint64(i), Elapsed: uint64(min(i, 1)),
		Flags: controller.FlagArmed | controller.FlagReward | controller.FlagReplanned,
	}
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
	t.Counted = uint64(i+10) / 20
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
		t.Labels[0] = controller.AppliedLabel{
			ID: t.Request, From: uint64(max(i-9, 0)), To: uint64(i - 3), About: uint64(i - 1), Value: t.Reward, Weight: 1,
			Kind: rewardsrc.Value, Outcome: controller.Applied,
		}
	}
}

func testFile(change func(*configs.File)) configs.File {
	file := configs.Default()
	if change != nil {
		change(&file)
	}
	return file
}

func dogSpec(channels int) hal.Spec {
	spec := hal.Spec{Name: "dog", Period: 10 * time.Millisecond}
	names := "a bee body_height_above_ground d e f g h i j k l m n o p q r s t u v w x y z aa ab ac ad ae af ag ah"
	for _, name := range strings.Fields(names)[:channels] {
		spec.Obs = append(spec.Obs, hal.Channel{Name: name})
	}
	spec.Action = []hal.Channel{{Name: "left", Min: -1, Max: 1}, {Name: "right", Min: -1, Max: 1}}
	return spec
}

// goldenCase is a frame in testdata.
type goldenCase struct {
	name   string
	file   func(*configs.File)
	spec   hal.Spec
	ticks  int
	change func(*screenDisplay)
}

func goldenCases(t *testing.T) []goldenCase {
	unlimited := func(f *configs.File) {
		f.Operator.Source = configs.SourceKeyboard
		f.Run.DurationS, f.Run.EpisodeS = 0, 0
	}
	suggesting := func(f *configs.File) {
		unlimited(f)
		f.Operator.Suggestions = []string{
			"stand up: good while the head is high", "walk: good while it is upright and moves forwards",
		}
	}
	attended := func(f *configs.File) {
		f.Safety.Arm, f.Safety.AfterStop = configs.ArmOperator, configs.AfterStopHold
		f.Operator.Source = configs.SourceKeyboard
	}
	dog := func(f *configs.File) {
		f.Robot.Driver = "bridge"
		rigtest.EditRobot(f, func(c *bridge.Config) { c.Task = "run" })
		f.Controller.Gate.Off, f.Run.Lockstep = true, true
	}
	rover := rigtest.RoverSpec(t)
	return []goldenCase{
		{"rover", nil, rover, 500, func(s *screenDisplay) {
			s.Label(rewardsrc.Label{ID: 25, Kind: rewardsrc.Value, Value: 0.5}, nil)
			s.keys = true
		}},
		{"ascii", nil, rover, 500, func(s *screenDisplay) {
			s.terminal.canvas.glyphs = &asciiGlyphs
			s.ToggleDetails()
		}},
		{"details", unlimited, rover, 500, (*screenDisplay).ToggleDetails},
		{"start", suggesting, rover, 1, func(s *screenDisplay) {
			s.stats.Last.Flags = controller.FlagUnreachable
			s.keys = true
		}},
		{"wanted", unlimited, rover, 91, func(s *screenDisplay) {
			s.Label(rewardsrc.Label{Kind: rewardsrc.Value, Value: 1}, errors.New("the disk is full"))
			s.Notice(keyboard.Notice{Event: keyboard.Ignored, Text: "12 keys ignored"})
			s.stats.Last.Index += 26 // 1.3 s later
		}},
		{"channels", dog, dogSpec(34), 500, nil},
		{"few-channels", dog, dogSpec(8), 500, nil},
		{"halted", nil, rover, 100, func(s *screenDisplay) {
			s.stats.Last.Fault = controller.FaultStalePlan
			s.Event(flightlog.Event{Level: flightlog.Error, Text: "robot halted: plan too old"})
		}},
		{"disarmed", attended, rover, 100, func(s *screenDisplay) { s.stats.Last.Flags &^= controller.FlagArmed }},
		{"stopped", attended, rover, 100, func(s *screenDisplay) {
			s.stats.Last.Flags = s.stats.Last.Flags&^controller.FlagArmed | controller.FlagStopped
			s.stats.Last.Fault = controller.FaultEStop
		}},
	}
}

func TestScreenDisplay_Golden(t *testing.T) {
	for _, c := range goldenCases(t) {
		t.Run(c.name, func(t *testing.T) {
			s := newTestScreen(t, testFile(c.file), c.spec, c.ticks)
			s.session.Invoked = shell.Invocation{Program: "optibfm", Operate: []string{"-c", "robot.yaml"}}
			if c.change != nil {
				c.change(s)
			}
			got := paintText(t, s, 80, 24)
			path := filepath.Join("testdata", c.name+".txt")
			if *updateGolden {
				fatal.If(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want, err := os.ReadFile(path)
			fatal.If(t, err)
			if got != string(want) {
				t.Errorf("the frame differs (go test -update writes it); got\n%s\nwant\n%s", got, want)
			}
			if c.name == "ascii" && strings.ContainsFunc(got, func(r rune) bool { return r > unicode.MaxASCII }) {
				t.Error("a character outside ASCII")
			}
		})
	}
}

func TestScreenDisplay_ShowsLongCommandComplete(t *testing.T) {
	file := testFile(func(f *configs.File) { f.Safety.Arm = configs.ArmOperator })
	s := newTestScreen(t, file, rigtest.RoverSpec(t), 100)
	s.stats.Last.Flags &^= controller.FlagArmed
	s.session.Invoked = shell.Invocation{
		Program: "optibfm", Operate: []string{"--socket", "/run/user/1000/optibfm/control-of-the-robot"},
	}
	want := " optibfm arm --socket /run/user/1000/optibfm/control-of-the-robot\n"
	if frame := paintText(t, s, 80, 24); !strings.Contains(frame, want) {
		t.Errorf("the frame lacks %q:\n%s", want, frame)
	}
}

func TestDisplays_NameKindOfRefusedLabel(t *testing.T) {
	s := newTestScreen(t, testFile(nil), rigtest.RoverSpec(t), 2)
	var lines bytes.Buffer
	d := NewLineDisplay(&lines, ShowLines)
	for want, l := range map[string]controller.AppliedLabel{
		"0.5 (label 6) does NOT count: ":    {ID: 6, Kind: rewardsrc.Value, Value: 0.5},
		"better (label 7) does NOT count: ": {ID: 7, Kind: rewardsrc.Comparison, Value: 0.5},
		"goal (label 8) does NOT count: ":   {ID: 8, Kind: rewardsrc.Goal, Value: 1},
	} {
		l.Outcome = controller.TooOld
		s.Outcome(nil, &l)
		d.Outcome(nil, &l)
		if !strings.HasPrefix(s.lastLabel.text, want) || !strings.Contains(lines.String(), want) {
			t.Errorf("screen %q, lines %q; want %q", s.lastLabel.text, lines.String(), want)
		}
	}
	s.Label(rewardsrc.Label{Kind: rewardsrc.Comparison, Value: -0.5}, errors.New("the disk is full"))
	if want := "worse does NOT count: the disk is full"; s.lastLabel.text != want {
		t.Errorf("screen %q, want %q", s.lastLabel.text, want)
	}
}

func TestScreenDisplay_ShowsKeysThatFit(t *testing.T) {
	file := testFile(func(f *configs.File) { f.Operator.Source = configs.SourceKeyboard })
	s := newTestScreen(t, file, rigtest.RoverSpec(t), 2)
	const narrow = " + good  - bad  > better  < worse  g goal  u undo  ? can't tell  q quit"
	for width, want := range map[int]string{80: narrow, 120: narrow + "  0 neither  1..9 graded"} {
		if frame := paintText(t, s, width, 24); !strings.HasSuffix(frame, "\n"+want+"\n") {
			t.Errorf("%d columns: want the keys %q in\n%s", width, want, frame)
		}
	}
}

func TestScreenDisplay_ShowsKeysThatStopFirstInASmallWindow(t *testing.T) {
	person := testFile(func(f *configs.File) { f.Operator.Source = configs.SourceKeyboard })
	attended := person
	attended.Safety.Arm = configs.ArmOperator
	const labels, enlarge = "+ good - bad", "enlarge the window to 80 x 24"
	for _, c := range []struct {
		file configs.File
		w, h int
		want string // the last row
	}{
		{attended, 79, 23, " SPACE STOP  q quit  + good  - bad  > better  < worse  g goal  u undo"},
		{attended, 34, 10, " SPACE STOP q quit " + labels},
		{attended, 12, 3, " SPACE STOP"},
		{attended, 40, 1, " SPACE STOP  q quit  + good  - bad"},
		{person, 30, 8, " q quit + good - bad > better"},
		{testFile(nil), 40, 8, " Ctrl-C ends the run"},
	} {
		frame := paintText(t, newTestScreen(t, c.file, rigtest.RoverSpec(t), 2), c.w, c.h)
		rows := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
		if got := rows[len(rows)-1]; got != c.want || strings.Contains(frame, enlarge) != (c.h > 6) {
			t.Errorf("%d x %d: the last row is %q, want %q, in\n%s", c.w, c.h, got, c.want, frame)
		}
	}
}

func TestDisplays_RemoveEscapeSequences(t *testing.T) {
	const evil = "\x1b]0;owned\a\x1b[2J\r\n\u202e\u009b31m\xff日本e\u0301\u0903"
	file := testFile(func(f *configs.File) {
		f.Robot.Driver = "bridge"
		rigtest.EditRobot(f, func(c *bridge.Config) { c.Task = evil })
	})
	spec := hal.Spec{
		Name: evil, Period: 50 * time.Millisecond,
		Obs: []hal.Channel{{Name: evil}, {Name: evil}, {Name: evil}}, Action: make([]hal.Channel, 1),
	}
	s := newTestScreen(t, file, spec, 60)
	s.missing = []string{evil}
	s.Event(flightlog.Event{Level: flightlog.Error, Text: evil})
	s.Label(rewardsrc.Label{}, errors.New(evil))
	for _, size := range [][2]int{{80, 24}, {40, 8}} {
		cells, _, _ := paint(t, s, size[0], size[1]).GetContents()
		for _, cell := range cells {
			if text := string(cell.Runes); len(cell.Runes) != 1 || plaintext.Clean(text) != text {
				t.Errorf("%d x %d: a cell holds %q", size[0], size[1], text)
			}
		}
	}
	var lines bytes.Buffer
	d := NewLineDisplay(&lines, ShowLines)
	d.Begin(s.session, spec, nil, s.stats)
	d.Event(flightlog.Event{Text: evil})
	d.Label(rewardsrc.Label{}, errors.New(evil))
	d.Notice(keyboard.Notice{Text: evil})
	if strings.ContainsAny(lines.String(), "\x1b\a\r\u009b\u202e") {
		t.Errorf("lines: %q", lines.String())
	}
}

func TestScreenDisplay_DrawsAnySizeAndNumber(t *testing.T) {
	s := newTestScreen(t, configs.Default(), rigtest.RoverSpec(t), 300)
	last := &s.stats.Last
	for _, v := range []float64{0, math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		last.Reward, last.DGap, last.Kappa, last.LogDet, last.PlanScore, s.stats.Running = v, v, v, v, v, v
		last.Z[0], last.Action[0], last.Obs[0] = v, float32(v), float32(v)
		s.arena.add(last, s.elapsed()+time.Hour)
		s.history.add(s.elapsed(), v, true, 1)
		for _, size := range [][2]int{{1, 1}, {79, 24}, {80, 23}, {80, 24}, {81, 60}, {200, 24}, {300, 100}} {
			title := paintText(t, s, size[0], size[1])
			if want := "rover"[:min(5, size[0])]; size[0] > 1 && !strings.Contains(title, want) {
				t.Fatalf("%v: no title in\n%s", size, title)
			}
		}
	}
}

func TestScreenDisplay_RingsWhenLabelIsWanted(t *testing.T) {
	for bell, want := range map[bool]int{true: 1, false: 0} {
		file := testFile(func(f *configs.File) {
			f.Operator.Source, f.Operator.Keyboard.Bell = configs.SourceKeyboard, bell
		})
		s := newTestScreen(t, file, rigtest.RoverSpec(t), 10)
		out := &screenshots{}
		s.terminal = openTerminal(t, out, fixedSize, nil)
		s.terminal.start()
		s.Notice(keyboard.Notice{Event: keyboard.Wanted})
		for range 2 { // frames
			s.terminal.waitIdle()
			s.showFrame()
		}
		s.End()
		if n := strings.Count(out.take(), "\a"); n != want {
			t.Errorf("bell: %t in the configuration: %d bells, want %d", bell, n, want)
		}
	}
}

func TestNewDisplay_WritesLinesWithoutTerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	fatal.If(t, err)
	defer file.Close()
	for _, out := range []io.Writer{file, &bytes.Buffer{}} {
		if d, ok := NewDisplay(out, ShowAuto).(*LineDisplay); !ok {
			t.Errorf("%T: got a %T", out, d)
		}
	}
}
