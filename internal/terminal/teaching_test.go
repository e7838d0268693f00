package terminal

import (
	"strings"
	"testing"
	"unicode"

	"github.com/gdamore/tcell/v2"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/recorder"
	"optibfm/internal/rigtest"
	"optibfm/rewardsrc"
)

// newTeaching returns the screen of a person who labels at the keyboard.
func newTeaching(t *testing.T, spec hal.Spec, change func(*configs.File)) *screenDisplay {
	t.Helper()
	return newTestScreen(t, testFile(func(f *configs.File) {
		f.Operator.Source = configs.SourceKeyboard
		f.Run.DurationS, f.Run.EpisodeS = 0, 0
		if change != nil {
			change(f)
		}
	}), spec, 5)
}

// show runs a tick after the newest one.
func (s *screenDisplay) show(t *testing.T, change func(*controller.Tick)) {
	t.Helper()
	tick := controller.NewTick(controller.Shape{Obs: len(s.spec.Obs), Action: len(s.spec.Action), Latent: 24})
	i := int(s.stats.Last.Index) + 1
	fillTick(tick, i, 0)
	tick.NumLabels, tick.Request, tick.Counted = 0, 0, s.stats.Last.Counted
	tick.Flags &^= controller.FlagAsked
	if change != nil {
		change(tick)
	}
	(&recorder.Recorder{Statistics: s.stats, Display: s}).Tick(tick)
}

func TestScreenDisplay_ShowsTheMomentOfARequest(t *testing.T) {
	rover := rigtest.RoverSpec(t)
	for _, c := range []struct {
		name   string
		spec   hal.Spec
		change func(*configs.File)
		flags  controller.Flags
		want   string
		arrows int // in the colours of the question
	}{
		{"pose", rover, func(f *configs.File) { f.Controller.Credit.Answers = controller.AtRequest }, 0,
			"how good was it 1.5 s ago, at the yellow arrow?", 1},
		{"until the press", rover, func(f *configs.File) { f.Controller.Credit.Answers = controller.UntilPress }, 0,
			"how good is it now?", 0},
		{"held", rover, func(f *configs.File) {
			f.Controller.Credit.Answers, f.Controller.Gate.Pause = controller.UntilPress, controller.PauseHold
		}, controller.FlagHeld, "how good was it 1.5 s ago? The robot waits", 1},
		{"no arena", dogSpec(8), func(f *configs.File) {
			f.Robot.Driver, f.Controller.Credit.Answers = "bridge", controller.AtRequest
		}, 0, "how good was it 0.3 s ago?", 0},
		{"estimated", rover, nil, 0,
			"how good is it now?", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTeaching(t, c.spec, c.change)
			s.show(t, func(k *controller.Tick) { k.Flags, k.Request = k.Flags|controller.FlagAsked, 7 })
			for range 30 {
				s.show(t, func(k *controller.Tick) { k.Flags, k.Request = k.Flags|c.flags, 7 })
			}
			if frame := paintText(t, s, 80, 24); !strings.Contains(frame, "LABEL WANTED   "+c.want+" ") {
				t.Errorf("want %q in\n%s", c.want, frame)
			}
			if n := countInk(t, s, inkAskBanner); n != c.arrows {
				t.Errorf("%d arrows in the colours of the question, want %d", n, c.arrows)
			}
			s.show(t, nil)
			if n := countInk(t, s, inkAskBanner); n != 0 {
				t.Errorf("%d arrows after the request", n)
			}
		})
	}
}

// countInk counts the cells of an ink in the part of the robot.
func countInk(t *testing.T, s *screenDisplay, k ink) (n int) {
	t.Helper()
	cells, w, _ := paint(t, s, 80, 24).GetContents()
	want, _, _ := newPalette(256).inks[k].Decompose()
	for i, cell := range cells {
		fg, _, _ := cell.Style.Decompose()
		if x, y := i%w, i/w; x < 34 && y > 2 && y < 19 && fg == want {
			n++
		}
	}
	return n
}

func TestScreenDisplay_MarksWhatALabelCountsFor(t *testing.T) {
	s := newTeaching(t, rigtest.RoverSpec(t), nil)
	for range 60 {
		s.show(t, nil)
	}
	before := countInk(t, s, inkBad)
	press := func(l controller.AppliedLabel) {
		s.Label(rewardsrc.Label{ID: l.ID, Kind: l.Kind, Value: l.Value}, nil)
		s.show(t, func(k *controller.Tick) { k.NumLabels, k.Labels[0] = 1, l })
	}
	now := s.stats.Last.Index + 1
	bad := controller.AppliedLabel{
		ID: 99, Value: -1, Kind: rewardsrc.Value, Outcome: controller.Applied, From: now - 13, To: now - 5, About: now - 9,
	}
	press(bad)
	const want = " -1 (label 99) counts for 0.7 to 0.2 s before "
	if frame := paintText(t, s, 80, 24); !strings.Contains(frame, want) {
		t.Errorf("want %q in\n%s", want, frame)
	}
	if n := countInk(t, s, inkBad); n < before+3 {
		t.Errorf("%d cells marked, want the stretch", n-before)
	}
	for range int(creditTime/s.spec.Period) + 1 {
		s.show(t, nil)
	}
	if n := countInk(t, s, inkBad); n > before+1 {
		t.Errorf("%d cells marked after %v, want the label alone", n-before, creditTime)
	}
}

func TestScreenDisplay_AsksWhetherTheTaskChanged(t *testing.T) {
	for source, how := range map[string]string{
		configs.SourceKeyboard: "press k.", "gpio": "press undo.", configs.SourceWeb: "press Keep in the browser (k).",
	} {
		s := newTeaching(t, rigtest.RoverSpec(t), func(f *configs.File) { f.Operator.Source = source })
		s.show(t, func(k *controller.Tick) { k.Flags, k.Counted = k.Flags|controller.FlagKeepable, 20 })
		frame := paintText(t, s, 160, 50)
		words := strings.Join(strings.Fields(strings.Map(letters, frame)), " ")
		for _, want := range []string{"It seems that the task changed.", how} {
			if !strings.Contains(words, want) {
				t.Errorf("%s: want %q in\n%s", source, want, frame)
			}
		}
		if source != configs.SourceKeyboard && strings.Contains(frame, "k: keep") {
			t.Errorf("%s: a key that does nothing in\n%s", source, frame)
		}
	}
}

// letters leaves out the lines of frames.
func letters(r rune) rune {
	if r > unicode.MaxLatin1 {
		return ' '
	}
	return r
}

func TestScreenDisplay_CountsTheLabelsOfAKeptTask(t *testing.T) {
	var g given
	tick := func(flags controller.Flags, counted uint64, labels ...controller.AppliedLabel) {
		t.Helper()
		k := &controller.Tick{Header: &controller.Header{Flags: flags, Counted: counted}}
		for i := range labels {
			g.add(&labels[i], labelScale{1, 0})
		}
		g.keep(k)
		if _, sum := g.counts(); sum != counted {
			t.Errorf("%d labels shown, %d count", sum, counted)
		}
	}
	label := func(id uint64, reward float64) controller.AppliedLabel {
		return controller.AppliedLabel{ID: id, Value: reward, Kind: rewardsrc.Value}
	}
	for id := range uint64(5) {
		tick(0, id+1, label(id, 1))
	}
	tick(controller.FlagKeepable, 2)
	tick(controller.FlagKeepable, 4, label(5, -1), label(6, -1))
	tick(controller.FlagKeepable, 3, controller.AppliedLabel{Kind: rewardsrc.Undo, Undoes: 6})
	tick(0, 6, controller.AppliedLabel{Kind: rewardsrc.Keep})
	if counts, _ := g.counts(); counts[givenGood] != 5 || counts[givenBad] != 1 {
		t.Errorf("%d good, %d bad: want 5 and 1", counts[givenGood], counts[givenBad])
	}
	tick(controller.FlagKeepable, 1) // another change, unanswered
	tick(0, 1)
	tick(0, 2, label(7, 1))
	if g.former != nil {
		t.Error("the former task remains")
	}
}

func TestScreenDisplay_ShowsAPersonWhatCounts(t *testing.T) {
	file := testFile(func(f *configs.File) { f.Operator.Source = configs.SourceKeyboard })
	s := newTestScreen(t, file, rigtest.RoverSpec(t), 5)
	known := controller.Interval{Low: 0.55, Middle: 0.7, High: 1}
	give := func(id uint64, l rewardsrc.Label, counted uint64) {
		s.show(t, func(k *controller.Tick) {
			k.NumLabels, k.Counted = 1, counted
			k.Labels[0] = controller.AppliedLabel{
				ID: id, Kind: l.Kind, Value: l.Value, Undoes: l.Undoes, Outcome: controller.Applied,
			}
			k.Predicted = controller.Predicted{Labels: 3, Of: 5}
			k.Evidence, k.Known = controller.Evidence{Skill: 0.3, SkillError: 0.1}, known
		})
	}
	shows := func(want ...string) {
		t.Helper()
		frame := paintText(t, s, 80, 24)
		for _, w := range want {
			rigtest.Contains(t, frame, w)
		}
	}
	shows("It tries out what it can do.\n", "It knows nothing of the task yet.\n", " 0 labels\n", " 0 good  0 bad\n")
	s.show(t, func(k *controller.Tick) { k.Counted = 1 })
	shows("Too early to tell how well it knows.\n")
	for i, l := range []rewardsrc.Label{
		{Kind: rewardsrc.Value, Value: 1}, {Kind: rewardsrc.Value, Value: -1}, {Kind: rewardsrc.Value, Value: 1},
		{Kind: rewardsrc.Comparison, Value: 0.5}, {Kind: rewardsrc.Goal, Value: 1},
	} {
		give(uint64(100+i), l, uint64(1+i))
	}
	shows("It learns from your labels.\n", "Better than guessing, reaches 55–100 %.\n", " 5 labels\n",
		" 2 good  1 bad  1 better  1 goal\n", " +-+>g\n")
	give(200, rewardsrc.Label{Kind: rewardsrc.Undo, Undoes: 102}, 4)
	shows(" 4 labels\n", " 1 good  1 bad  1 better  1 goal\n", " +-+>g\n", "undone 1")
	if n := countStruck(t, s); n != 1 {
		t.Errorf("%d labels are struck through, want one", n)
	}
	s.show(t, func(k *controller.Tick) { k.Counted = 2 }) // the robot forgot the oldest
	shows(" 2 labels\n", " 0 good  0 bad  1 better  1 goal\n", " +>g\n")
	s.show(t, func(k *controller.Tick) { k.Counted = 9 }) // and has them again
	shows(" 9 labels\n", " 0 good  0 bad  1 better  1 goal  7 earlier\n")
	s.Event(flightlog.Event{Fields: map[string]string{"task": "walk"}})
	s.show(t, func(k *controller.Tick) { k.Flags, k.Counted = k.Flags|controller.FlagSwitched, 12 })
	shows("It follows the saved task walk.\n", " 12 labels\n", "It has the labels of the saved task walk.\n",
		" 0 good  0 bad  12 earlier\n")
	give(300, rewardsrc.Label{Kind: rewardsrc.Value, Value: 1}, 13)
	s.show(t, func(k *controller.Tick) { k.Flags |= controller.FlagLearnt })
	shows("It does what it learnt.\n", "It seems to have learnt it: watch it.\n")
}

// countStruck counts the cells that are struck through.
func countStruck(t *testing.T, s *screenDisplay) (n int) {
	t.Helper()
	cells, _, _ := paint(t, s, 80, 24).GetContents()
	for _, cell := range cells {
		if _, _, attributes := cell.Style.Decompose(); attributes&tcell.AttrStrikeThrough != 0 {
			n++
		}
	}
	return n
}

func TestScreenDisplay_CountsLabelsBeyondThoseThatCanBeUndone(t *testing.T) {
	var g given
	for id := range uint64(undoable + 44) {
		g.add(&controller.AppliedLabel{ID: id, Value: 1, Kind: rewardsrc.Value}, labelScale{1, 0})
	}
	if counts, sum := g.counts(); counts[givenGood] != undoable+44 || sum != undoable+44 || len(g.newest) != undoable {
		t.Errorf("%d good, %d in all, %d kept", counts[givenGood], sum, len(g.newest))
	}
}

func TestScreenDisplay_WordsBeforeSymbols(t *testing.T) {
	symbols := []string{"κ", "D-gap", "nats", "log det V", "PLAN", "p99", "thompson", "Hz"}
	for _, source := range []string{configs.SourceKeyboard, "gpio", configs.SourceScripted} {
		s := newTestScreen(t, testFile(func(f *configs.File) { f.Operator.Source = source }), rigtest.RoverSpec(t), 300)
		for _, size := range [][2]int{{80, 24}, {160, 50}, {60, 20}} {
			frame := paintText(t, s, size[0], size[1])
			for _, symbol := range symbols {
				if strings.Contains(frame, symbol) {
					t.Errorf("%s: the first screen has %q:\n%s", source, symbol, frame)
				}
			}
		}
		s.ToggleDetails()
		frame := paintText(t, s, 80, 24)
		for _, symbol := range append(symbols, " nats (D-gap)", "asks from 0.2 (κ)") {
			if !strings.Contains(frame, symbol) {
				t.Errorf("%s: the details lack %q:\n%s", source, symbol, frame)
			}
		}
	}
}

func TestDisplays_HideTheTaskFromAPerson(t *testing.T) {
	for source, hidden := range map[string]bool{
		configs.SourceKeyboard: true, "evdev": true, configs.SourceWeb: true, configs.SourceScripted: false,
	} {
		file := testFile(func(f *configs.File) { f.Operator.Source = source })
		s := newTestScreen(t, file, rigtest.RoverSpec(t), 300)
		for _, size := range [][2]int{{80, 24}, {160, 50}, {60, 20}} {
			frame := paintText(t, s, size[0], size[1])
			for _, word := range []string{"corner", "reward", "return"} {
				if strings.Contains(frame, word) == hidden {
					t.Errorf("%s: hidden %v, but %q in\n%s", source, hidden, word, frame)
				}
			}
		}
		if (s.arena.task == "") != hidden {
			t.Errorf("%s: the arena is shaded by the reward of %q", source, s.arena.task)
		}
		var lines strings.Builder
		d := NewLineDisplay(&lines, ShowLines)
		d.Begin(s.session, s.spec, nil, s.stats)
		d.Tick(&s.stats.Last)
		for _, word := range []string{"corner", "return="} {
			if strings.Contains(lines.String(), word) == hidden {
				t.Errorf("%s: hidden %v, but %q in %s", source, hidden, word, lines.String())
			}
		}
	}
}

func TestScreenDisplay_WaitsForThePerson(t *testing.T) {
	for source, how := range map[string]string{
		configs.SourceKeyboard: "ress any key", configs.SourceWeb: "ress any key or Good in the browser",
		"gpio": "ress a button of your device",
	} {
		s := newTeaching(t, rigtest.RoverSpec(t), func(f *configs.File) { f.Operator.Source = source })
		s.show(t, func(k *controller.Tick) { k.Flags = controller.FlagUnreachable })
		frame := paintText(t, s, 80, 24)
		for _, want := range []string{how + " to start.", " This press is not a label."} {
			if !strings.Contains(frame, want) {
				t.Errorf("%s: before the first input: want %q in\n%s", source, want, frame)
			}
		}
		s.show(t, func(k *controller.Tick) { k.Flags |= controller.FlagUnreachable })
		if frame := paintText(t, s, 80, 24); !strings.Contains(frame, "no question while you are away; back? p"+how) {
			t.Errorf("%s: away:\n%s", source, frame)
		}
	}
}

func TestScreenDisplay_ShowsQuitAt80Columns(t *testing.T) {
	for _, arm := range []string{configs.ArmAutomatic, configs.ArmOperator} {
		s := newTeaching(t, rigtest.RoverSpec(t), func(f *configs.File) { f.Safety.Arm = arm })
		frame := paintText(t, s, 80, 24)
		keys := frame[strings.LastIndex(strings.TrimRight(frame, "\n"), "\n"):]
		for _, want := range labelKeys[:neededKeys] {
			if !strings.Contains(keys, want) {
				t.Errorf("arm %s: no %q in %q", arm, want, keys)
			}
		}
		if strings.Contains(keys, "SPACE STOP") != (arm == configs.ArmOperator) {
			t.Errorf("arm %s: %q", arm, keys)
		}
	}
}
