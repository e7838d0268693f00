package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/control"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/shell"
)

// execute runs the program in this process and returns its output.
func execute(args ...string) (string, error) {
	var out bytes.Buffer
	root := NewRootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.Execute()
	return out.String(), err
}

func TestHelp_ExamplesParse(t *testing.T) {
	rigtest.CheckHelp(t, NewRootCommand())
	out, err := execute("--help")
	for _, want := range []string{
		"Operate:\n  run ", "Label:\n  label ", "Review:\n  replay ", "Models:\n  model ", "Set up:\n  new-robot ",
	} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q: %v", want, err)
		}
	}
	if strings.Contains(out, "  host ") || strings.Contains(out, "Additional Commands") {
		t.Errorf("a command outside the groups:\n%s", out)
	}
}

func TestCompletion_ForTheShellsOfThePackage(t *testing.T) {
	for args, want := range map[string]string{
		"completion bash":         "complete -o default -F __start_optibfm optibfm",
		"completion zsh":          "#compdef optibfm\n",
		"completion fish":         "complete -c optibfm ",
		"__complete config val":   "validate\t",
		"__complete run --operat": "--operator\t",
		"__complete task sh":      "show\t",
		"run --help":              "\n  quadruped: stand, walk, run, jump\n",

		"__complete run --task t":                       "corner\n",
		"__complete run --config walker-human --task t": "stand\nwalk\nrun\nflip\n",
		"__complete run --config g1 --task t":           "stand\nwalk_forward\n",
		"__complete run --config rover-mcu --task t":    ":4\n", // none
		"__complete run --set version=nothing --task=t": ":4\n",
	} {
		if out, err := execute(strings.Fields(args)...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: no %q, %v", args, want, err)
		}
	}
}

func TestExitStatus_IsThreeForADamagedLog(t *testing.T) {
	damaged := fmt.Errorf("log info: %w", flightlog.ErrDamaged)
	if exitStatus(damaged) != 3 || exitStatus(errors.New("another")) != 1 {
		t.Errorf("%d for a damaged log, %d for another error", exitStatus(damaged), exitStatus(errors.New("another")))
	}
}

func TestFindSocket_ByPathOrConfiguration(t *testing.T) {
	for _, c := range []struct{ socket, config, want string }{
		{"", "", defaultSocket},
		{"/a", "", "/a"},
		{"/a", "robot", "/a"},
		{"", "robot", defaultSocket},
	} {
		if got, err := findSocket(c.socket, c.config); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	errtest.NotNil(t, errtest.Of(findSocket("", "rover")), "a configuration without a socket was accepted")
	if err := control.SendAndPrint(io.Discard, filepath.Join(t.TempDir(), "none"), "arm", false); err == nil {
		t.Error("a missing socket was accepted")
	}
}

func TestConfig_InitWritesAValidFileOnce(t *testing.T) {
	for _, name := range configs.Names() {
		path := filepath.Join(t.TempDir(), "mine.yaml")
		out, err := execute("config", "init", name, "-o", path)
		if err != nil || !strings.Contains(out, "run --config "+path) {
			t.Fatalf("%q, %v", out, err)
		}
		if out, err := execute("config", "validate", path); err != nil || !strings.HasPrefix(out, path+": valid\n") ||
			strings.Contains(out, "warning") != slices.Contains([]string{"composite", "servo-arm"}, name) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	path := filepath.Join(t.TempDir(), "mine.yaml")
	fatal.If(t, os.WriteFile(path, []byte("precious"), 0o600))
	_, err := execute("config", "init", "-o", path)
	errtest.Contains(t, err, "the file exists")
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file holds %q", text)
	}
	errtest.Contains(t, errtest.Of(execute("config", "init", "rovre")), "did you mean rover?")
}

func TestUsage_ProposesTheNearestAndShowsTheUsage(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.mcap")
	fatal.If(t, os.WriteFile(empty, nil, 0o600))
	for _, c := range []struct{ args, want string }{
		{"run --tsk spin", "run: unknown flag: --tsk; did you mean --task?"},
		{"run --nothing-like-it", "see: optibfm run --help"},
		{"run --set", "flag needs an argument: --set; see: optibfm run --help"},
		{"run --seed x", `"x" for "--seed" flag`},
		{"run --set gate", "--set: the value is missing; write key.path=value\n      | gate\n      | ^^^^"},
		{"replay", "replay: wrong number of arguments (0); usage: optibfm replay FILE"},
		{"log inf x", "did you mean info?"},
		{"task from-log a", "usage: optibfm task from-log FILE NAME --from T --to T"},
		{"task save ../x", "task save: NAME: not a name of a task"},
		{"log info " + empty, "the file is empty, so it has no labels"},
	} {
		errtest.Contains(t, errtest.Of(execute(strings.Fields(c.args)...)), c.want)
	}
}

func TestConfig_InitNamesTheLinesToChange(t *testing.T) {
	for name, want := range map[string]string{
		"robot": "written; first edit the lines marked CHANGE (12, 19, 40), then start it with: ",
		"rover": "written; start it with: ",
	} {
		out, err := execute("config", "init", name, "-o", filepath.Join(t.TempDir(), name+".yaml"))
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %q is not in %s", name, err, want, out)
		}
	}
}

func TestRun_NamesWhatIsMissingAndWhereItComesFrom(t *testing.T) {
	t.Chdir("../..") // the folder of the repository
	for bundle, want := range map[string]string{
		"g1":     "models/g1: file does not exist; download and import this model (docs/public-models.md)",
		"humenv": "models/s1: file does not exist; download and import this model (docs/public-models.md)",
		"robot": "models/myrobot: file does not exist; this is a template: write it to a file with " +
			"`optibfm config init robot",
	} {
		errtest.Contains(t, errtest.Of(execute("run", "--config", bundle)), want)
	}
	for bundle, want := range map[string]string{
		"models/mine":   "train a model (docs/training.md), import one (docs/models.md)",
		"embedded:rovr": "the embedded models are: embedded:rover",
		"no/such/model": "run this command in the folder of the repository",
	} {
		errtest.Contains(t, errtest.Of(execute("run", "--set", "model.bundle="+bundle)), want)
	}
	t.Chdir(t.TempDir())
	_, err := execute("run", "--config", "walker")
	errtest.Contains(t, err, "models/walker: file does not exist; run this command in the folder of the repository")
}

func TestConfig_ValidateShowsTheMistakesOfAllFiles(t *testing.T) {
	var paths []string
	for _, text := range []string{"version: 1\nrnu: {}\n", "version: 1\n", "version: 1\nrun: {episodes: -1}\n"} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		paths = append(paths, path)
	}
	out, err := execute(append([]string{"config", "validate"}, paths...)...)
	if err == nil || out != paths[1]+": valid\n" {
		t.Fatalf("%q, %v", out, err)
	}
	for _, want := range []string{
		paths[0] + ":2:1: unknown key rnu; did you mean run?\n    2 | rnu: {}\n      | ^^^",
		paths[2] + ":2:17: run.episodes is out of range (-1)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error\n%v\nwant in it\n%s", err, want)
		}
	}
}

func TestConfig_ShowAndList(t *testing.T) {
	out, err := execute("config", "show", "rover-fast", "--set", "controller.gate.kappa=0.25")
	fatal.If(t, err)
	cfg, err := configs.Parse("shown.yaml", []byte(out))
	if err != nil || cfg.Controller.Gate.Kappa != 0.25 || !cfg.Run.Lockstep {
		t.Errorf("%+v, %v", cfg, err)
	}
	out, err = execute("config", "list")
	fatal.If(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(configs.Names()) {
		t.Fatalf("%d lines:\n%s", len(lines), out)
	}
	for i, name := range configs.Names() {
		if !strings.HasPrefix(lines[i], name+"  ") || !strings.HasSuffix(lines[i], ".") {
			t.Errorf("line %q, want %s and a sentence", lines[i], name)
		}
	}
	if out, err := execute("config", "schema"); err != nil || out != string(configs.Schema()) {
		t.Errorf("schema: %v: %.100s", err, out)
	}
}

func TestReplay_PageTakesNoOtherOutput(t *testing.T) {
	errtest.Contains(t, errtest.Of(execute("replay", "x.mcap", "--html", "x.html", "--kappa", "1")), "html")
}

// A program of another name prints its own name: internal/shell knows every command that a text may
// advise.
func TestMain_HelpNamesThisProgram(t *testing.T) {
	root := NewRootCommand()
	mine := shell.Invocation{Program: "mine"}
	rename(root, mine)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		texts := cmd.Short + "\n" + cmd.Long + "\n" + cmd.Example + "\n" + cmd.LocalFlags().FlagUsages()
		for _, c := range root.Commands() {
			if strings.Contains(texts, "optibfm "+c.Name()) && !strings.Contains(texts, "/optibfm "+c.Name()) {
				t.Errorf("%s advises optibfm %s", cmd.CommandPath(), c.Name())
			}
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(root)
	for _, c := range root.Commands() {
		if text := "`optibfm " + c.Name() + "`"; !c.Hidden && mine.Renamed(text) == text {
			t.Errorf("internal/shell does not rename the command %s", c.Name())
		}
	}
}
