package configs

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"optibfm/controller"
	"optibfm/hal/bridge"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/keys"
	"optibfm/internal/sections"
	"optibfm/rewardsrc/scripted"
)

func TestLoad_ReadsEveryReadyMadeConfiguration(t *testing.T) {
	names := []string{
		"antmaze", "antmaze-human", "cheetah", "cheetah-human", "composite", "g1", "g1-robot", "go2",
		"go2-sim", "go2-sim-human", "humenv",
		"quadruped", "quadruped-human", "robot", "rover", "rover-fast", "rover-keyboard",
		"rover-mcu", "servo-arm", "walker", "walker-human",
	}
	for _, name := range names {
		errtest.Nil(t, errtest.Of(Load(name)), name)
	}
	if !slices.Equal(Names(), names) {
		t.Errorf("Names() = %v", Names())
	}
}

func TestParse_FillsInDefaults(t *testing.T) {
	cfg, err := Parse("c.yaml", []byte("version: 1\n"))
	fatal.If(t, err)
	if !reflect.DeepEqual(cfg, Default()) {
		t.Errorf("got %+v", cfg)
	}
}

func TestFile_YAMLReadsBackTheSame(t *testing.T) {
	for _, name := range Names() {
		want, err := Load(name, "controller.seed=18446744073709551615", "controller.rho=0.1234567890123456789",
			"run.duration_s=1000000", "controller.gate.kappa=1e-7", "model.bundle=a: #b \"c'")
		fatal.If(t, err)
		text, err := want.YAML()
		fatal.If(t, err)
		got, err := Parse("written.yaml", text)
		if err != nil {
			t.Fatalf("%s:\n%s\n%v", name, text, err)
		}
		emptySlices(&got)
		emptySlices(&want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read back\n%+v\nwant\n%+v", name, got, want)
		}
	}
}

// emptySlices replaces empty lists by nil, as YAML does not distinguish them.
func emptySlices(f *File) { emptySlicesOf(reflect.ValueOf(f).Elem()) }

func emptySlicesOf(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct:
		for _, f := range keys.Fields(v) {
			emptySlicesOf(f.Value)
		}
	case (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0:
		v.SetZero()
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			emptySlicesOf(v.Index(i))
		}
	}
}

// mistakes parses a text and returns its errors.
func mistakes(t testing.TB, text string, set ...string) []*Error {
	t.Helper()
	_, err := Parse("c.yaml", []byte(text), set...)
	return errorsIn(t, err)
}

func errorsIn(t testing.TB, err error) []*Error {
	t.Helper()
	if err == nil {
		return nil
	}
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		var one *Error
		if !errors.As(err, &one) {
			t.Fatalf("not a *configs.Error: %v", err)
		}
		return []*Error{one}
	}
	var all []*Error
	for _, e := range many.Unwrap() {
		var one *Error
		if errors.As(e, &one) {
			all = append(all, one)
		}
	}
	return all
}

func TestError_ShowsLineAndCaret(t *testing.T) {
	text := "version: 1\n\ncontroller:\n  gate:\n    kapa: 0.1  # how much\n"
	_, err := Parse("my.yaml", []byte(text))
	want := `my.yaml:5:5: unknown key controller.gate.kapa; did you mean kappa?
    5 |     kapa: 0.1  # how much
      |     ^^^^`
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v\nwant\n%s", err, want)
	}
}

func TestError_HidesSecretsOfAddresses(t *testing.T) {
	for _, text := range []string{
		"version: 1\noperator: {view: {url: 'ftp://me:s3cret@cam/?key=s3cret', width: much}}\n",
		"version: 1\noperator: {view: {url: 'http://me:s3cret/x@cam/'}}\n",
		"version: 1\noperator:\n  view:\n    rate_hz: http://me:s3cret@cam/\n",
		"version: 1\noperator:\n  view:\n    urn: http://me:s3cret@cam/\n",
		"version: 1\noperator:\n  view:\n    url: \"http://me:s3cret@cam/\n",
	} {
		_, err := Parse("my.yaml", []byte(text))
		if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "^") {
			t.Errorf("%s:\n%v", text, err)
		}
	}
	_, err := Load("rover", "operator.view.url=http://me:s3cret@cam:port/")
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
}

func TestFile_RedactedLeavesTheOriginal(t *testing.T) {
	f := Default()
	f.Operator.View.URL = "http://me:s3cret@cam/"
	sections.Edit(&f.Robot.Sections, func(c *bridge.Config) {
		c.Command = []string{"bridge", "--camera=http://me:s3cret@cam/"}
	})
	shown, err := f.Redacted().YAML()
	if err != nil || strings.Contains(string(shown), "s3cret") {
		t.Errorf("%v\n%s", err, shown)
	}
	errtest.Nil(t, errtest.Of(Parse("shown", shown)))
	command := sections.Get[bridge.Config](f.Robot.Sections).Command
	if !strings.Contains(f.Operator.View.URL+command[1], "s3cret@cam/--camera=http://me:s3cret") {
		t.Error("the configuration itself lost its password")
	}
}

// at removes the mark « from a text and returns its place.
func at(text string) (plain string, line, column int) {
	i := strings.Index(text, "«")
	before := text[:i]
	line = 1 + strings.Count(before, "\n")
	column = 1 + utf8.RuneCountInString(before[1+strings.LastIndex(before, "\n"):])
	return before + text[i+len("«"):], line, column
}

func TestParse_ReportsPlaceAndFix(t *testing.T) {
	for _, c := range mistakesWithPlaces {
		text, line, column := at(c.text)
		got := mistakes(t, text)
		if len(got) == 0 {
			t.Errorf("no error for\n%s", text)
			continue
		}
		e := got[0]
		exact := c.wantText != "" && !strings.Contains(c.wantText, "address")
		if exact && (e.Line != line || e.Column != column) {
			t.Errorf("%d:%d, want %d:%d:\n%v", e.Line, e.Column, line, column, e)
		}
		if !exact && e.Line != line {
			t.Errorf("line %d, want %d:\n%v", e.Line, line, e)
		}
		if !strings.Contains(e.Problem, c.wantText) {
			t.Errorf("want %q in\n%v", c.wantText, e)
		}
	}
}

// mistakesWithPlaces marks with « where an error points.
var mistakesWithPlaces = []struct{ text, wantText string }{
	{"version: 1\n«contoller: {}\n", "did you mean controller?"},
	{"version: 1\n«zzz: 1\n", "use one of version, robot, model"},
	{"version: 1\nrobot:\n  rover: {«tsk: spin}\n", "did you mean task?"},
	{"version: 1\nrun:\n  episodes: 3\n  «episodes: 4\n", "given twice (first in line 3)"},
	{"version: 1\nrun:\n  episodes: «three\n", "is a string (\"three\"); write a whole number"},
	{"version: 1\nrun:\n  episodes: «2.5\n", "is a number (2.5); write a whole number"},
	{"version: 1\nrun:\n  duration_s: «fast\n", "write a finite number"},
	{"version: 1\nrun:\n  duration_s: «.inf\n", "write a finite number"},
	{"version: 1\nrun:\n  duration_s: «.nan\n", "write a finite number"},
	{"version: 1\nrun:\n  lockstep: «1\n", "write true or false"},
	{"version: 1\nmodel:\n  bundle: «7\n", "write a string"},
	{"version: 1\ncontroller:\n  seed: «-1\n", "out of range (-1); write a whole number of at least 0"},
	{"version: 1\ncontroller:\n  fixed_z: «1\n", "write a list"},
	{"version: 1\ncontroller:\n  fixed_z: [1, «x]\n", "write a finite number"},
	{"version: 1\ncontroller: «3\n", "write its keys below"},
	{"version: 1\nrun: &«a {episodes: 1}\n", ""},
	{"version: 1\nmodel:\n  bundle: «!!str 7\n", "write the value out"},
	{"version: «2\n", "is out of range (2); choose 1"},
	{"«run:\n  episodes: 1\n", "begin with 'version: 1'"},
	{"version: 1\ncontroller:\n  strategy: «ubc # é\n", "did you mean ucb?"},
	{"version: 1\nmodel: {warm_start: \"é\", bundle: «3}\n", "write a string"},
	{"version: 1\ncontroller: {strategy: «greedy}\n", "use one of ucb, ucb_sphere"},
	{"version: 1\ncontroller:\n  gate:\n    kappa: «-1\n", "choose a finite number of at least 0"},
	{"version: 1\ncontroller:\n  «beta: {schedule: theory, delta: 3}\n", ""},
	{"version: 1\n«controller:\n  strategy: fixed\n", "fixed_z"},
	{"version: 1\nrun: {start_task: a}\ncontroller:\n  strategy: fixed\n  fixed_z: «[0, 0]\n", "not all 0"},
	{"version: 1\nrobot:\n  rover:\n    period_ms: «0\n", "choose a value from 1 to 1000"},
	{"version: 1\nrobot:\n  rover:\n    task: «cornr\n", "did you mean corner?"},
	{"version: 1\nrobot:\n  driver: «brige\n", "did you mean bridge?"},
	{"version: 1\nrobot:\n  driver: bridge\n  «bridge:\n    task: walk\n", "address"},
	{"version: 1\nloop:\n  period_ms: «20\n", "same value"},
	{"version: 1\nloop:\n  posture: «stirct\n", "did you mean strict?"},
	{"version: 1\nloop:\n  fifo_priority: «99\n", "from 0 to 98"},
	{"version: 1\noperator:\n  scripted:\n    levels: «1\n", "2 to 1000"},
	{"version: 1\noperator:\n  keyboard:\n    refractory_ms: «-5\n", "from 0 to 5000"},
	{"version: 1\noperator: {source: «keyboard}\nrun: {lockstep: true}\n", "too fast for a person"},
	{"version: 1\nlog:\n  flush_ms: «0\n", "from 1 to 60000"},
	{"version: 1\nrun: {host_timeout_s: «0}\n", "from 0.05 to 60"},
	{"version: 1\n---\nversion: «1\n", ""},
	{"version: 1\nmodel:\n  bundle: \"«é\n", ""},
	{"version: 1\nloop:\n  watchdog_ms: «\"3\"\n", "write a finite number"},
	{"version: 1\nrun:\n  host_timeout_s: «\n", "is empty"},
	{"version: 1\nrun:\n  host_timeout_s: «~\n", "is empty"},
}

func TestParse_ReportsAllMistakesInFileOrder(t *testing.T) {
	got := mistakes(t, "version: 1\nrun:\n  duration_s: -1\nlog:\n  flush_ms: 0\ncontroller:\n  rho: 2\n  lambda: 0\n")
	if len(got) != 4 {
		t.Fatalf("%d mistakes, want 4: %v", len(got), got)
	}
	for i, path := range []string{"run.duration_s", "log.flush_ms", "controller.rho", "controller.lambda"} {
		if got[i].Path != path {
			t.Errorf("mistake %d is about %s, want %s", i, got[i].Path, path)
		}
	}
}

func TestParse_ReportsUnreadableAndInvalidValuesTogether(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		paths []string
	}{
		"type, range, choice and conflict": {
			"version: 1\nloop: {period_ms: 20}\nrun: {episodes: three, duration_s: -1}\n" +
				"log: {flush_ms: 0}\noperator: {source: nowhere}\n",
			[]string{"loop.period_ms", "run.episodes", "run.duration_s", "log.flush_ms", "operator.source"}},
		"unknown key and range": {
			"version: 1\ncontroller: {rho: 2, kapa: 1}\n", []string{"controller.rho", "controller.kapa"}},
		"missing version and range": {"run: {duration_s: -1}\n", []string{"version", "run.duration_s"}},
		"device and range": {
			"version: 1\nlog: {flush_ms: 0}\n" +
				"robot: {driver: composite, composite: {name: 7, devices: [{driver: x}]}}\n",
			[]string{"log.flush_ms", "robot.composite.name", "robot.composite.devices[0].driver"}},
		// A conflict with an unreadable value is not reported.
		"a conflict with an unreadable value": {
			"version: 1\nloop: {period_ms: 20}\nrobot: {rover: {period_ms: fast}}\n",
			[]string{"robot.rover.period_ms"}},
		"a conflict with an invalid value": {
			"version: 1\nloop: {period_ms: 20}\nrobot: {rover: {period_ms: -1}}\n", []string{"robot.rover.period_ms"}},
		"a conflict with a misspelled key": {
			"version: 1\nloop: {period_ms: 20}\nrobot: {drivr: bridge}\n", []string{"robot.drivr"}},
		"a missing value beside one": {
			"version: 1\nrobot: {driver: bridge, bridge: {comand: [a]}}\n", []string{"robot.bridge.comand"}},
		"a pause of a robot that cannot stand still": {
			"version: 1\nrobot: {driver: bridge, bridge: {address: \"unix:/s\"}}\ncontroller: {gate: {pause: hold}}\n",
			[]string{"controller.gate.pause"}},
		"a pause without a motion after it": {
			"version: 1\ncontroller: {gate: {pause: hold, backoff_s: 0}}\n", []string{"controller.gate.backoff_s"}},
		"labels of another range without an offset": {
			"version: 1\noperator: {scripted: {reward_low: -2}}\ncontroller: {offset: 0, gate: {stop_when_learnt: true}}\n",
			[]string{"controller.hypotheses", "controller.gate.relearn", "controller.gate.stop_when_learnt"}},
		"a hold that keeps the rover moving": {"version: 1\nrobot: {hold: last_command}\n", []string{"robot.hold"}},
		"an unreadable section":              {"version: 1\nrobot: {driver: bridge, bridge: 7}\n", []string{"robot.bridge"}},
		"no YAML":                            {"run: [\n", []string{""}},
		"no section":                         {"hello\n", []string{""}},
	} {
		var paths []string
		for _, e := range mistakes(t, c.text) {
			paths = append(paths, e.Path)
		}
		if !slices.Equal(paths, c.paths) {
			t.Errorf("%s: got %q, want %q", name, paths, c.paths)
		}
	}
	got := mistakes(t, "version: 1\nrun: {duration_s: -1}\n", "loop.cpus=[1,", "log.flush_ms=0")
	if len(got) != 3 {
		t.Errorf("file and overrides: %v", got)
	}
}

func TestError_EscapesAndCutsTheLine(t *testing.T) {
	long := strings.Repeat("abcdefghi ", 40)
	for name, c := range map[string]struct{ text, want string }{
		"binary": {"\x7fELF\x00\x1b[2J\xff\xfe rest", `c.yaml:1:10: invalid UTF-8; save the file as UTF-8
    1 | \x7fELF\x00\x1b[2J\xff\xfe rest
      |                   ^^^^`},
		"control characters": {"version: 1\nx\u202e\u0007y: 1\n", `c.yaml:2:1: `},
		"long before":        {"version: 1\nrun: {episodes: 1, # " + long + "\n  duration_s: 1, episodes: 2}\n", ""},
		"long after": {"version: 1\nbad: \"" + long + "\"\n",
			`    2 | bad: "` + strings.Repeat("abcdefghi ", 6)[:57] + "...\n      | ^^^"},
		"long mistake": {"version: 1\n" + strings.Repeat("k", 500) + ": 1\n",
			"    2 | " + strings.Repeat("k", 60) + "...\n      | " + strings.Repeat("^", 60)},
		"far to the right": {"version: 1\nrun: {" + strings.Repeat(" ", 100) + "bad: 1}\n",
			"    2 | ..." + strings.Repeat(" ", 60) + "bad: 1}\n      | " + strings.Repeat(" ", 63) + "^^^"},
	} {
		_, err := Parse("c.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got\n%v\nwant\n%s", name, err, c.want)
			continue
		}
		for line := range strings.Lines(err.Error()) {
			raw := func(r rune) bool { return !unicode.IsPrint(r) }
			if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), raw) || len(line) > 400 {
				t.Errorf("%s: printed %q", name, line)
			}
		}
	}
}

func TestParse_AcceptsTextOfWindowsEditors(t *testing.T) {
	for name, text := range map[string]string{
		"byte-order mark": "\ufeffversion: 1\nrun: {episodes: 4}\n",
		"line ends":       "version: 1\r\nrun:\r\n  episodes: 4\r\n",
	} {
		cfg, err := Parse("c.yaml", []byte(text))
		if err != nil || cfg.Run.Episodes != 4 {
			t.Errorf("%s: got %+v, %v", name, cfg.Run, err)
		}
	}
}

func TestJoin_KeepsTheFirstMistakes(t *testing.T) {
	_, err := Parse("c.yaml", []byte("version: 1\n"+strings.Repeat("bad: 1\n", 100)))
	if n := strings.Count(err.Error(), "\n"); n > 4*maxErrors || !strings.Contains(err.Error(), "88 more mistakes") {
		t.Errorf("%d lines: %v", n, err)
	}
}

func TestParse_EmptySectionHasDefaults(t *testing.T) {
	cfg, err := Parse("c.yaml", []byte("version: 1\ncontroller:\n  # rho: 0.5\nrun:\n  episodes: 4\n"))
	fatal.If(t, err)
	if cfg.Controller.Rho != 1 || cfg.Run.Episodes != 4 {
		t.Errorf("got %+v", cfg)
	}
}

func TestParse_AcceptsExponents(t *testing.T) {
	numbers := map[string]float64{"1e6": 1e6, "1e+06": 1e6, "5E-1": 0.5, "+2e2": 200, "1.5e3": 1500, "1e-0": 1}
	for text, want := range numbers {
		cfg, err := Parse("c.yaml", []byte("version: 1\nrun: {duration_s: "+text+"}\n"))
		if err != nil || cfg.Run.DurationS != want {
			t.Errorf("%s: %v, %v", text, cfg.Run.DurationS, err)
		}
	}
	for _, text := range []string{"\"1e6\"", "'1e6'", "1e", "e6", "1e6x", "1e999", "0x1p4", "1_0e3", "1e6 2"} {
		if got := mistakes(t, "version: 1\nrun: {duration_s: "+text+"}\n"); len(got) != 1 {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestLoad_OverridesSingleValues(t *testing.T) {
	cfg, err := Load("rover",
		"controller.strategy=thompson", "controller.gate.kappa=0.5", "run.lockstep=true", "run.episodes=5",
		"loop.cpus=[1, 3]", "operator.scripted.mode=every_tick", "controller.fixed_z=[0.5,-1]", "model.bundle=007")
	fatal.If(t, err)
	if cfg.Controller.Strategy != controller.Thompson || cfg.Controller.Gate.Kappa != 0.5 || !cfg.Run.Lockstep ||
		cfg.Run.Episodes != 5 || !reflect.DeepEqual(cfg.Loop.CPUs, []int{1, 3}) ||
		cfg.Operator.Scripted.Mode != scripted.EveryTick ||
		!reflect.DeepEqual(cfg.Controller.FixedZ, []float64{0.5, -1}) ||
		cfg.Model.Bundle != "007" {
		t.Errorf("got %+v", cfg)
	}
	if cfg.Robot.Task() != "south_wall" || cfg.Controller.Gate.TimeoutS != 5 {
		t.Errorf("other values changed: %+v", cfg)
	}
}

func TestLoad_OverridesGivenKeysOfASection(t *testing.T) {
	cfg, err := Load("rover", "run={episodes: 3}")
	if err != nil || cfg.Run.Episodes != 3 || cfg.Run.EpisodeS != 10 {
		t.Errorf("got %+v, %v", cfg.Run, err)
	}
}

func TestLoad_ReportsBadOverride(t *testing.T) {
	for set, want := range map[string]string{
		"controller.gate.kapa=1":    "--set: unknown key controller.gate.kapa; did you mean kappa?",
		"run.episodes.x=1":          "run.episodes is a value without keys",
		"run.episodes":              "write key.path=value",
		"run.episodes=":             "--set: run.episodes is empty",
		"run.episodes=many":         "--set: run.episodes is a string",
		"run.lockstep=maybe":        "--set: run.lockstep is a string",
		"controller.gate.kappa=-1":  "--set: controller.gate.kappa is out of range (-1)",
		"controller.strategy=ubc":   "--set: controller.strategy is unknown (\"ubc\"); did you mean ucb?",
		"loop.cpus=[1,":             "--set: this is not YAML",
		"run.episodes=010":          "--set: run.episodes: the number begins with 0",
		"=3":                        "unknown key",
		"run={episodes: 3, epi: 4}": "--set: unknown key run.epi",
	} {
		_, err := Load("rover", set)
		errtest.Contains(t, err, want, set)
	}
}

func TestParse_HasAFixForEachFormerKey(t *testing.T) {
	known := regexp.MustCompile(`[a-z]+(\.[a-z_]+)+`)
	for key, fix := range formerKeys {
		if _, _, ok := lookup(reflect.ValueOf(Default()), key); ok {
			t.Errorf("%s is a key", key)
		}
		for _, path := range known.FindAllString(fix, -1) {
			if _, _, ok := lookup(reflect.ValueOf(Default()), path); !ok {
				t.Errorf("%s: %q names the unknown key %s", key, fix, path)
			}
		}
		want, value := "unknown key "+key+"; "+fix, "1"
		names := strings.Split(key, ".")
		for _, name := range slices.Backward(names) {
			value = "{" + name + ": " + value + "}"
		}
		text := "version: 1\n" + strings.TrimSuffix(strings.TrimPrefix(value, "{"), "}") + "\n"
		errtest.Contains(t, errtest.Of(Parse("kept.yaml", []byte(text))), want, "in a file")
		errtest.Contains(t, errtest.Of(Load("rover", key+"=1")), want, "with --set")
	}
}

func TestLoad_ReadsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	fatal.If(t, os.WriteFile(path, []byte("version: 1\nrun: {episodes: 9}\n"), 0o600))
	cfg, err := Load(path)
	if err != nil || cfg.Run.Episodes != 9 {
		t.Errorf("got %+v, %v", cfg.Run, err)
	}
}

func TestLoad_RefusesUnknownName(t *testing.T) {
	_, err := Load("no-such-thing")
	errtest.Is(t, err, ErrUnknownName)
	errtest.Contains(t, err, "rover-keyboard")
}

func TestText_RefusesAPath(t *testing.T) {
	errtest.Is(t, errtest.Of(Text("../configs/rover")), ErrUnknownName)
}

func TestFile_HasReadableFieldsOnly(t *testing.T) {
	var check func(reflect.Type, string)
	check = func(typ reflect.Type, path string) {
		switch typ.Kind() {
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				tag, ok := f.Tag.Lookup("yaml")
				if !ok {
					t.Errorf("%s.%s has no yaml tag", path, f.Name)
				}
				if reflect.PointerTo(f.Type).Implements(reflect.TypeFor[keys.Holder]()) {
					continue
				}
				if f.Anonymous {
					check(f.Type, path)
				} else if key, _, _ := strings.Cut(tag, ","); key != "" && key != "-" {
					check(f.Type, keys.Join(path, key))
				} else if tag != "-" {
					t.Errorf("%s.%s has no key", path, f.Name)
				}
			}
		case reflect.Slice, reflect.Map:
			check(typ.Elem(), path)
		case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		default:
			t.Errorf("%s is of kind %s, which the loader does not read", path, typ.Kind())
		}
	}
	check(reflect.TypeFor[File](), "")
}

func TestRun_StepsRoundsToPeriods(t *testing.T) {
	period := Default().Loop.Period()
	for _, c := range []struct {
		run  Run
		want int
	}{{Run{}, 0}, {Run{EpisodeS: 10}, 200}, {Run{EpisodeS: 0.001}, 1}} {
		if got := c.run.Steps(period); got != c.want {
			t.Errorf("%+v: %d steps, want %d", c.run, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		text, err := Text(name)
		fatal.If(f, err)
		f.Add(text, "run.episodes=1")
	}
	f.Add([]byte("version: 1\n? [a]\n: b\n"), "controller={")
	f.Add([]byte("a: &x [*x, <<: 1]\n--- \n..."), "loop.cpus=- 1")
	f.Add([]byte("version: !!int |\n  1\n"), "controller.fixed_z=[.nan]")
	f.Fuzz(func(t *testing.T, text []byte, set string) {
		cfg, err := Parse("c.yaml", text, set)
		for _, e := range errorsIn(t, err) {
			if e.Line < 1 || e.Column < 1 || e.Width < 1 || e.Column+e.Width > utf8.RuneCountInString(e.Source)+2 {
				t.Fatalf("a place outside the text: %+v", e)
			}
			if e.Problem == "" || !utf8.ValidString(e.Problem) && utf8.Valid(text) && utf8.ValidString(set) {
				t.Fatalf("problem %q", e.Problem)
			}
		}
		if err != nil {
			return
		}
		if cfg.Version != Version || math.IsNaN(cfg.Run.DurationS) || cfg.Validate() != nil {
			t.Fatalf("accepted %+v", cfg)
		}
	})
}

func TestParse_LimitsSuggestions(t *testing.T) {
	parse := func(list string) error {
		_, err := Parse("test", []byte("version: 1\noperator:\n  suggestions: "+list))
		return err
	}
	errtest.Nil(t, parse(`["stand up: good while the head is high", "walk: good while it walks"]`))
	for list, want := range map[string]string{
		`[a, ""]`:                             "operator.suggestions[1]",
		`["` + strings.Repeat("ü", 81) + `"]`: "1 to 80 characters",
		`["\e[2J"]`:                           "operator.suggestions[0]",
		`[a, b, c, d, e, f]`:                  "keep at most 5",
	} {
		errtest.Contains(t, parse(list), want, list)
	}
}

func TestLoad_ConfigurationsForAPersonProposeThreeTasks(t *testing.T) {
	for _, name := range append(human(), "rover-keyboard") {
		f, err := Load(name)
		fatal.If(t, err)
		for _, s := range f.Operator.Suggestions {
			if !strings.Contains(s, ": good while ") {
				t.Errorf("%s: %q has no rule", name, s)
			}
		}
		if len(f.Operator.Suggestions) != 3 {
			t.Errorf("%s: %d tasks", name, len(f.Operator.Suggestions))
		}
	}
}

// human returns the names of the configurations in which a person teaches in the browser.
func human() (names []string) {
	for _, name := range Names() {
		if strings.HasSuffix(name, "-human") {
			names = append(names, name)
		}
	}
	return names
}
