package tasks

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/sections"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/gpio"
)

// writeCSV writes a file of moments.
func writeCSV(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "moments.csv")
	fatal.If(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

// propose returns the rows that Propose writes, and the file.
func propose(t *testing.T, log string, n int) (rows []string, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "moments.csv")
	fatal.If(t, Propose(&bytes.Buffer{}, &bytes.Buffer{}, log, n, path))
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n"), path
}

func TestPropose_IsGreedyInTheInformation(t *testing.T) {
	b := newBench(t)
	log := b.record(t, "operator.source=none")
	rows, _ := propose(t, log, 6)
	// With the paper's belief and no label, V = I + Σ φφᵀ of the picked ticks. The gain is log(1 +
	// φᵀV⁻¹φ).
	v := make([][]float64, b.d)
	for i := range v {
		v[i] = make([]float64, b.d)
		v[i][i] = 1
	}
	all := ticks(t, log)
	var picked []uint64
	for _, row := range rows[1:] {
		best, gain := -1, -1.0
		for i, tick := range all {
			near := slices.ContainsFunc(picked, func(p uint64) bool { // 0.5 s are 10 ticks
				return math.Abs(float64(p)-float64(tick.Index)) < 10
			})
			if g := math.Log1p(quadratic(v, tick.Phi)); !near && g > gain {
				best, gain = i, g
			}
		}
		tick := all[best]
		want := fmt.Sprintf("%.3f,%d,%.3f,0.000,%s,",
			float64(tick.SenseAt-all[0].SenseAt)/1e9, tick.Index, gain, stateOf(tick.Phi))
		if row != want {
			t.Fatalf("row %s, want %s after %v", row, want, picked)
		}
		picked = append(picked, tick.Index)
		for i := range v {
			for j := range v {
				v[i][j] += tick.Phi[i] * tick.Phi[j]
			}
		}
	}
	if len(picked) != 6 {
		t.Errorf("%d rows", len(picked))
	}
}

// quadratic returns xᵀV⁻¹x by Gaussian elimination with pivots.
func quadratic(v [][]float64, x []float64) (sum float64) {
	d := len(x)
	a := make([][]float64, d)
	for i := range a {
		a[i] = append(slices.Clone(v[i]), x[i])
	}
	for k := range d {
		pivot := k
		for i := k; i < d; i++ {
			if math.Abs(a[i][k]) > math.Abs(a[pivot][k]) {
				pivot = i
			}
		}
		a[k], a[pivot] = a[pivot], a[k]
		for i := range d {
			if i == k {
				continue
			}
			f := a[i][k] / a[k][k]
			for j := k; j <= d; j++ {
				a[i][j] -= f * a[k][j]
			}
		}
	}
	for i := range d {
		sum += x[i] * a[i][d] / a[i][i]
	}
	return sum
}

func TestPropose_KeepsItsDistanceAndItsPromises(t *testing.T) {
	b := newBench(t)
	for name, set := range map[string][]string{
		"paper":  nil,
		"person": {"controller.preset=person"},
		"offset": {"controller.offset=0.7", "controller.rho=0.999"},
	} {
		t.Run(name, func(t *testing.T) {
			log := b.record(t, set...)
			rows, _ := propose(t, log, maxProposed) // 5 s have room for 10
			if again, _ := propose(t, log, maxProposed); !slices.Equal(rows, again) {
				t.Error("proposals differ between two calls")
			}
			var at []float64
			for _, row := range rows[1:] {
				var seconds float64
				fatal.If(t, errtest.Of(fmt.Sscanf(row, "%g,", &seconds)))
				at = append(at, seconds)
			}
			slices.Sort(at)
			if len(at) < 6 || len(at) > 10 {
				t.Errorf("%d moments", len(at))
			}
			for i := 1; i < len(at); i++ {
				if at[i]-at[i-1] < 0.499 {
					t.Errorf("moments at %g and %g s", at[i-1], at[i])
				}
			}
		})
	}
}

func TestPropose_ExpectsTheLabelsOfItsBelief(t *testing.T) {
	b := newBench(t)
	log := b.record(t, "controller.offset=0.7", "operator.scripted.reward_high=2", "operator.scripted.reward_low=-3")
	rows, _ := propose(t, log, 3)
	b.Set = append(b.Set, "controller.offset=0.7")
	fatal.If(t, Save(&bytes.Buffer{}, b.Options, New{Name: "end"}, log))
	end, err := b.store.Load("end")
	fatal.If(t, err)
	if end.Belief.Belief.FirstNuisance() == 0 {
		t.Fatal("the labels of the run do not move the operator's zero")
	}
	all := ticks(t, log)
	for _, row := range rows[1:] {
		fields := strings.Split(row, ",")
		var n int
		fatal.If(t, errtest.Of(fmt.Sscan(fields[1], &n)))
		want := -0.5 + 2.5*end.Belief.Belief.Predict(append([]float64{0.7}, all[n].Phi...))
		if fields[3] != fmt.Sprintf("%.3f", want) {
			t.Errorf("tick %d: expected label %s, want %.3f", n, fields[3], want)
		}
	}
}

func TestPropose_SkipsTicksWithoutAState(t *testing.T) {
	b := newBench(t)
	log := rewrite(t, b.record(t, "operator.source=none"), func(tick *controller.Tick) {
		if tick.Index >= 10 {
			tick.Flags |= controller.FlagStopped
		}
	})
	for _, row := range first(propose(t, log, 20))[1:] {
		var seconds float64
		fatal.If(t, errtest.Of(fmt.Sscanf(row, "%g,", &seconds)))
		if seconds >= 0.5 {
			t.Errorf("%s, when the robot was stopped or starting", row)
		}
	}
	none := rewrite(t, log, func(tick *controller.Tick) { tick.Flags |= controller.FlagStopped })
	errtest.Contains(t, Propose(&bytes.Buffer{}, &bytes.Buffer{}, none, 3, ""), "no tick that a label can be about")

	var c candidates
	bad := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1})
	bad.Flags = controller.FlagBadObs
	if c.add(bad); len(c.moments) != 0 {
		t.Error("proposes a tick without a valid observation")
	}
}

func first[T, U any](x T, _ U) T { return x }

func TestCandidates_ThinOutEvenly(t *testing.T) {
	tick := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1})
	for _, n := range []uint64{1, maxCandidates, maxCandidates + 1, 3*maxCandidates + 5, 8 * maxCandidates} {
		var c candidates
		for i := range n {
			tick.Index = i
			c.add(tick)
		}
		if k := len(c.moments); k > maxCandidates || n > maxCandidates && k < maxCandidates/2 {
			t.Errorf("%d of %d ticks", k, n)
		}
		for i, m := range c.moments {
			if m.tick != uint64(i)*max(c.stride, 1) {
				t.Fatalf("of %d ticks, moment %d is tick %d", n, i, m.tick)
			}
		}
	}
}

func TestPropose_RefusesWhatItCannotPropose(t *testing.T) {
	b := newBench(t)
	log := b.record(t)
	ask := func(path string, n int, csv string) error {
		return Propose(&bytes.Buffer{}, &bytes.Buffer{}, path, n, csv)
	}
	for _, n := range []int{-1, 0, maxProposed + 1} {
		errtest.Contains(t, ask(log, n, ""), "--propose")
	}
	errtest.Is(t, ask(damage(t, log), 3, ""), flightlog.ErrDamaged, "a damaged log")
	_, existing := propose(t, log, 3)
	errtest.Contains(t, ask(log, 3, existing), "file exists")
	errtest.Contains(t, ask(filepath.Join(t.TempDir(), "none.mcap"), 3, ""), "no such file")
	var out, hint bytes.Buffer
	fatal.If(t, Propose(&out, &hint, log, 3, ""))
	if n := strings.Count(out.String(), "\n"); n != 4 || !strings.Contains(hint.String(), "--labels moments.csv") {
		t.Errorf("%s, hint %s", out.String(), hint.String())
	}
}

// damage changes a byte in the middle of a copy of a log.
func damage(t *testing.T, log string) string {
	t.Helper()
	text, err := os.ReadFile(log)
	fatal.If(t, err)
	text[len(text)/2] ^= 0xff
	path := filepath.Join(t.TempDir(), "damaged.mcap")
	fatal.If(t, os.WriteFile(path, text, 0o600))
	return path
}

// cut copies a log without its end, as a killed run leaves it.
func cut(t *testing.T, log string) string {
	t.Helper()
	text, err := os.ReadFile(log)
	fatal.If(t, err)
	path := filepath.Join(t.TempDir(), "cut.mcap")
	fatal.If(t, os.WriteFile(path, text[:len(text)-100], 0o600))
	return path
}

func TestLabel_AcceptsACutLogAndRefusesADamagedOne(t *testing.T) {
	b := newBench(t)
	log := b.record(t, "operator.source=none")
	ended := cut(t, log)
	_, moments := propose(t, ended, 3)
	text, err := os.ReadFile(moments)
	fatal.If(t, err)
	filled := writeCSV(t, strings.ReplaceAll(string(text), ",\n", ",+\n"))
	var out bytes.Buffer
	fatal.If(t, Label(&out, b.Options, New{Name: "turn"}, ended, filled))
	task, err := b.store.Load("turn")
	fatal.If(t, err)
	if task.Belief.Labels() != 3 || task.Origin.Afterwards != 3 || task.Origin.Log != ended {
		t.Errorf("%d labels, %+v\n%s", task.Belief.Labels(), task.Origin, out.String())
	}
	err = Label(&bytes.Buffer{}, b.Options, New{Name: "other"}, damage(t, log), filled)
	errtest.Is(t, err, flightlog.ErrDamaged, "a damaged log")
	if names := Names(b.Options, false); !slices.Equal(names, []string{"turn"}) {
		t.Errorf("tasks %q", names)
	}
}

// TestLabel_EqualsLabelsOfTheRun gives the labels that the operator gave in a run to the log of a
// run without an operator. Both runs visit the same states, as the strategy does not depend on the
// belief.
func TestLabel_EqualsLabelsOfTheRun(t *testing.T) {
	for name, set := range map[string][]string{
		"paper": nil,
		"fixed noise, offset": {"controller.preset=person", "controller.noise.estimate=false",
			"controller.noise.freedom=0"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			set = append(set, "controller.strategy=random", "controller.gate.kappa=0.5")
			taught := ticks(t, b.record(t, append(set, "operator.scripted.delay_s=0")...))
			lines := []string{"label,tick"}
			for _, tick := range taught {
				for _, l := range tick.Labels[:tick.NumLabels] {
					if l.From != l.To {
						t.Fatalf("a label about ticks %d to %d", l.From, l.To)
					}
					lines = append(lines, fmt.Sprintf("%v,%d", l.Value, l.From))
				}
			}
			if len(lines) < 3 {
				t.Fatalf("the operator gave %d labels", len(lines)-1)
			}
			silent := b.record(t, append(set, "operator.source=none", "operator.keyboard.bad_value=-1")...)
			fatal.If(t, Label(&bytes.Buffer{}, b.Options, New{Name: "turn"}, silent, writeCSV(t, lines...)))
			task, err := b.store.Load("turn")
			fatal.If(t, err)
			if got, want := task.Belief.Belief.Hash(), taught[len(taught)-1].Hash; got != want {
				t.Errorf("the belief %#x, the run ended with %#x", got, want)
			}
		})
	}
}

func TestLabel_LetsContradictionsLoseTheirWeight(t *testing.T) {
	b := newBench(t)
	log := b.record(t, "controller.preset=person", "operator.source=none")
	lines := []string{"tick,label"}
	for i := range 30 { // neighbours agree, but for one
		lines = append(lines, fmt.Sprintf("%d,0.5", 40+i))
	}
	lines[15] = "54,-40"
	var out bytes.Buffer
	fatal.If(t, Label(&out, b.Options, New{Name: "turn"}, log, writeCSV(t, lines...)))
	task, err := b.store.Load("turn")
	fatal.If(t, err)
	if w := task.Belief.Belief.Weight(); w < 25 || w > 29.5 {
		t.Errorf("the labels weigh %g: want 30, less most of the one that contradicts them\n%s", w, out.String())
	}
	if task.Belief.Noise == (controller.NoiseState{}) {
		t.Error("the noise is as before the labels")
	}
}

func TestLabel_StartsARun(t *testing.T) {
	b := newBench(t)
	b.Set = append(b.Set, "controller.preset=person")
	log := b.record(t, "operator.source=none", "controller.strategy=random")
	rows, _ := propose(t, log, 4)
	rows[1] += "-"
	rows[2] += " 0.25"
	rows[3] += "+"
	rows[4] += "?"
	var out bytes.Buffer
	fatal.If(t, Label(&out, b.Options, New{Name: "turn", Note: "afterwards"}, log, writeCSV(t, rows...)))
	rigtest.Contains(t, out.String(), "3 applied, 0 refused, 1 rows without", "z        none before", "--start turn")
	task, err := b.store.Load("turn")
	fatal.If(t, err)
	started := b.record(t, "run.start_task=turn", "operator.source=none")
	if got := ticks(t, started)[0].Hash; got == 0 || math.Abs(firstWeight(t, started)-task.Belief.Belief.Weight()) > 0 {
		t.Errorf("the run starts from another belief than the task's")
	}
	out.Reset()
	fatal.If(t, Show(&out, b.Options, "turn", false))
	if !strings.Contains(out.String(), "3 given to the log afterwards") {
		t.Error(out.String())
	}

	// More labels on top of those.
	out.Reset()
	fatal.If(t, Label(&out, b.Options, New{Name: "more"}, started, writeCSV(t, "tick,label", "7,1")))
	more, err := b.store.Load("more")
	fatal.If(t, err)
	if n := more.Belief.Labels(); n <= task.Belief.Labels() || !strings.Contains(out.String(), "z        cosine") {
		t.Errorf("%d labels after %d\n%s", n, task.Belief.Labels(), out.String())
	}
}

// firstWeight returns the weight of the belief before the first tick of a log.
func firstWeight(t *testing.T, path string) float64 {
	t.Helper()
	r, err := flightlog.Open(path)
	fatal.If(t, err)
	defer r.Close()
	for record, err := range r.Records() {
		fatal.If(t, err)
		if s := record.Snapshot; s != nil {
			belief, err := r.Metadata().Control.NewBelief(r.Metadata().Shape.Latent)
			fatal.If(t, err)
			fatal.If(t, belief.Restore(s.State))
			return belief.Weight()
		}
	}
	t.Fatal("no snapshot")
	return 0
}

func TestLabel_ReportsRowsThatDoNotCount(t *testing.T) {
	b := newBench(t)
	log := rewrite(t, b.record(t, "operator.source=none"), func(tick *controller.Tick) {
		if tick.Index == 20 {
			tick.Flags |= controller.FlagStopped
		}
	})
	var out bytes.Buffer
	fatal.If(t, Label(&out, b.Options, New{Name: "turn"}, log,
		writeCSV(t, "tick,label", "10,1", "20,1", "30,", "40,1e12")))
	rigtest.Contains(t, out.String(),
		"1 applied, 2 refused, 1 rows without",
		"line 3, tick 20: the robot was stopped or starting", "line 5, tick 40: bad label",
	)
	err := Label(&bytes.Buffer{}, b.Options, New{Name: "none"}, log, writeCSV(t, "tick,label", "20,1"))
	errtest.Contains(t, err, "no label counts (line 2, tick 20: the robot was stopped or starting)")
	if names := Names(b.Options, false); !slices.Equal(names, []string{"turn"}) {
		t.Errorf("tasks %q", names)
	}
}

func TestLabel_TakesLogsOfEarlierFormats(t *testing.T) {
	for _, name := range []string{"format5-paper", "format6-start"} {
		path := filepath.Join("..", "..", "..", "flightlog", "testdata", "golden", name+".mcap")
		rows, csv := propose(t, path, 2)
		text, err := os.ReadFile(csv)
		fatal.If(t, err)
		labels, _, err := readMoments(writeCSV(t, strings.ReplaceAll(string(text), ",\n", ",+\n")), scale{1, -1})
		fatal.If(t, err)
		s := make(states)
		for _, l := range labels {
			s[l.tick] = nil
		}
		end, err := followLog(path, s.add)
		fatal.If(t, err)
		before := end.learner.Belief().Clone()
		change, err := end.apply(labels, s)
		if err != nil || change.applied != len(rows)-1 || end.learner.Belief().Weight() <= before.Weight() {
			t.Errorf("%s: %+v, %v", name, change, err)
		}
	}
}

func TestLabel_SavesNothingFromABadFile(t *testing.T) {
	b := newBench(t)
	log := b.record(t, "operator.source=none")
	const header = "time_s,tick,gain_nats,expected,state,label"
	for _, c := range []struct{ text, want string }{
		{"", "empty"},
		{"tick;label\n1;1", "separate columns by commas"},
		{"tick,lable\n1,1", `line 1: column 2: unknown or repeated ("lable")`},
		{"tick,label,tick\n1,1,1", "column 3: unknown or repeated"},
		{"time_s,label\n1,1", "no column tick"},
		{"tick\n1", "no column label"},
		{header + "\n0.5,10,1,0,s0", "record on line 2: wrong number of fields"},
		{header + "\n0.5,ten,1,0,,1", `line 2, column 5: tick: found "ten"`},
		{header + "\n0.5,-1,1,0,,1", "a number of a tick"},
		{header + "\n0.5,10,1,0,,good", `line 2, column 13: label: found "good"; use a finite number, +, -`},
		{header + "\n0.5,10,1,0,,\"0,5\"", `found "0,5"`},
		{"tick,label\n10,NaN", "finite"},
		{"tick,label\n010,1", "line 2, column 1: tick: found \"010\""},
		{"tick,label\n10,01", "line 2, column 4: label: found \"01\""},
		{"tick,label\n10,-Inf", "finite"},
		{"tick,label\n10,1e999", "finite"},
		{"tick,label\n10,1\n11,\n10,0.5", "line 4: tick 10 has a label in line 2"},
		{"tick,label\n10,\n11,?", "no row has a label"},
		{"tick,label\n10,\"1", "line 2"},
		{"tick,label\n5000,1", "line 2: the log has no tick 5000"},
		{"tick,label,state\n10,1,s00000000", "line 2: tick 10 has another state"},
		{"tick,label\n" + strings.Repeat("1,\n", maxMoments/3), "too large"},
	} {
		err := Label(&bytes.Buffer{}, b.Options, New{Name: "turn"}, log, writeCSV(t, c.text))
		if c.text == "" {
			_, _, err = parseMoments(nil, scale{1, -1})
		}
		errtest.Contains(t, err, c.want)
	}
	good := writeCSV(t, "tick,label", "10,1")
	errtest.Contains(t, Label(&bytes.Buffer{}, b.Options, New{Name: "../x"}, log, good), "not a name")
	errtest.Contains(t, Label(&bytes.Buffer{}, Options{"rover", b.Set[1:]}, New{Name: "x"}, log, good), "another model")
	errtest.Contains(t, Label(&bytes.Buffer{}, b.Options, New{Name: "x"}, log, t.TempDir()), "not a regular file")
	if names := Names(b.Options, false); len(names) != 0 {
		t.Errorf("tasks %q", names)
	}
}

func TestParseMoments_ReadsWhatSpreadsheetsWrite(t *testing.T) {
	moments := []moment{{tick: 3, seconds: 0.15, phi: []float64{1, 2}}, {tick: 1 << 40, phi: []float64{3, 4}}}
	var out bytes.Buffer
	fatal.If(t, writeMoments(&out, moments))
	rows, empty, err := parseMoments(out.Bytes(), scale{1, -1})
	if err != nil || len(rows) != 0 || empty != 2 {
		t.Errorf("as proposed: %v, %d empty, %v", rows, empty, err)
	}
	text := "\uFEFF" + strings.ReplaceAll(strings.Replace(out.String(), ",\n3", ", + \n3", 1), "\n", "\r\n")
	text = strings.Replace(text, ",\r\n", ", + \r\n", 1)
	text = strings.Replace(text, ",\r\n", ",\"-\"\r\n", 1)
	rows, empty, err = parseMoments([]byte(text), scale{2, -3})
	want := []labelled{{2, 3, stateOf(moments[0].phi), 2}, {3, 1 << 40, stateOf(moments[1].phi), -3}}
	if err != nil || empty != 0 || !slices.Equal(rows, want) {
		t.Errorf("%+v, want %+v (%d empty, %v) from %q", rows, want, empty, err, text)
	}
}

func TestScale_IsThatOfTheOperatorsDevice(t *testing.T) {
	file, err := configs.Load("rover")
	fatal.If(t, err)
	o := file.Operator
	o.Keyboard.GoodValue, o.Web.GoodValue = 1, 4
	sections.Edit(&o.Sections, func(c *evdev.Config) { c.Labels.GoodValue = 2 })
	sections.Edit(&o.Sections, func(c *gpio.Config) { c.Labels.GoodValue = 3 })
	o.Scripted.RewardHigh, o.Scripted.RewardLow = 5, -5
	for source, want := range map[string]scale{
		configs.SourceKeyboard: {1, 0}, configs.SourceConsole: {1, 0}, "evdev": {2, 0}, "gpio": {3, 0},
		configs.SourceWeb: {4, 0}, configs.SourceScripted: {5, -5},
	} {
		o.Source = source
		if got := scaleOf(flightlog.Metadata{}, o); got != want {
			t.Errorf("%s: %+v", source, got)
		}
	}
}

func FuzzParseMoments(f *testing.F) {
	for _, seed := range []string{
		"tick,label\n1,+\n2,-\n3,0.5\n4,?\n5,\n", "label,tick,state\n1,2,s0\n", "tick;label\n",
		"\xEF\xBB\xBFtick,label\n\"1\",\"2\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, _, err := parseMoments(data, scale{1, -1})
		if err != nil && len(rows) > 0 {
			t.Error("rows with an error")
		}
		seen := make(map[uint64]bool)
		for _, row := range rows {
			if math.IsNaN(row.value) || math.IsInf(row.value, 0) || seen[row.tick] || row.line < 2 {
				t.Errorf("%+v from %q", row, data)
			}
			seen[row.tick] = true
		}
	})
}
