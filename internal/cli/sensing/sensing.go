package sensing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/internal/control"
	"optibfm/internal/ipc"
	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// Run opens the robot of a configuration, reads its sensors until ctx ends, and closes it. It never
// arms the robot. It draws on out if that is a terminal.
func Run(ctx context.Context, config string, set []string, out, warnings io.Writer) (err error) {
	file, err := configs.Load(config, set...)
	if err != nil {
		return err
	}
	if reason := unsuitable(file); reason != "" {
		return fmt.Errorf("sense: %s", reason)
	}
	if file.Safety.Socket == "" {
		fmt.Fprint(warnings, plaintext.Wrap("warning: safety.socket is empty, so a run that uses the robot "+
			"is not detected; make sure that none is active"))
	}
	release, err := control.Hold(file.Safety)
	if err != nil {
		return fmt.Errorf("sense: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	robot, err := setup.OpenDriver(ctx, file, rtloop.Now)
	if err != nil && ctx.Err() != nil {
		return ipc.ErrInterrupted
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, setup.CloseRobot(robot)) }()
	return watch(ctx, robot, out)
}

// unsuitable returns why a person cannot move this robot by hand, "" otherwise.
func unsuitable(file configs.File) string {
	switch {
	case setup.Simulated(file.Robot):
		return "robot.driver is " + file.Robot.Driver + ": this robot is simulated; use a physical one"
	case file.Run.Shadow:
		return "run.shadow is true: another program moves the robot; end it and set the key to false"
	}
	return ""
}

// redrawS is the time between two tables on a terminal.
const redrawS = 0.2

// watch reads a robot once a period until ctx ends. It draws the readings on a terminal, and prints
// a table of all at the end.
func watch(ctx context.Context, robot hal.Robot, out io.Writer) error {
	terminal, live := out.(*os.File)
	live = live && term.IsTerminal(int(terminal.Fd()))
	r := newRanges(robot.Spec())
	ticker := time.NewTicker(r.spec.Period)
	defer ticker.Stop()
	every := max(1, int(redrawS/r.spec.Period.Seconds()))
	for n := 0; ; n++ {
		r.read(robot)
		if live && n%every == 0 {
			r.redraw(terminal)
		}
		select {
		case <-ctx.Done():
			table := r.table()
			if live {
				table = clearScreen + table
			}
			_, err := io.WriteString(out, table)
			return errors.Join(err, r.result())
		case <-ticker.C:
		}
	}
}

// ranges are the readings of a robot's sensors.
type ranges struct {
	spec              hal.Spec
	now, next         []float32 // next: of a read that may fail
	least, most       []float64 // of finite readings
	samples, failures int
	err               error // of the newest failure
}

func newRanges(spec hal.Spec) *ranges {
	n := len(spec.Obs)
	r := &ranges{
		spec: spec, now: make([]float32, n), next: make([]float32, n),
		least: make([]float64, n), most: make([]float64, n),
	}
	for i := range n {
		r.least[i], r.most[i] = math.Inf(1), math.Inf(-1)
	}
	return r
}

func (r *ranges) read(robot hal.Robot) {
	if _, err := robot.Sense(r.next); err != nil {
		r.failures, r.err = r.failures+1, err
		return
	}
	r.samples++
	copy(r.now, r.next)
	for i, x := range r.now {
		if x := float64(x); !math.IsInf(x, 0) && !math.IsNaN(x) {
			r.least[i], r.most[i] = min(r.least[i], x), max(r.most[i], x)
		}
	}
}

// clearScreen moves the cursor to the first line and clears from there on.
const clearScreen = "\x1b[H\x1b[J"

// redraw replaces the contents of a terminal by as much of the table as fits.
func (r *ranges) redraw(terminal *os.File) {
	width, height, err := term.GetSize(int(terminal.Fd()))
	if err != nil || width < 1 || height < 3 {
		width, height = 80, 24
	}
	lines := strings.Split(strings.TrimSuffix(r.table(), "\n"), "\n")
	last := lines[len(lines)-1]
	if hidden := len(lines) - (height - 1); hidden > 0 {
		lines = append(lines[:height-2], fmt.Sprintf("%d more; Ctrl-C shows all. %s", hidden, last))
	}
	for i, line := range lines {
		if letters := []rune(line); len(letters) > width {
			lines[i] = string(letters[:width])
		}
	}
	_, _ = io.WriteString(terminal, clearScreen+strings.Join(lines, "\n")+"\n")
}

// table returns a line for each channel and one about failed reads.
func (r *ranges) table() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "channel\tunit\tnow\tleast\tgreatest\tlimits")
	for i, c := range r.spec.Obs {
		name, unit := plaintext.Clean(c.Name), plaintext.Clean(c.Unit)
		if r.samples == 0 {
			fmt.Fprintf(table, "%s\t%s\t-\t-\t-\t%s\n", name, unit, r.limits(i))
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%.4g\t%.4g\t%.4g\t%s\n", name, unit, r.now[i], r.least[i], r.most[i], r.limits(i))
	}
	_ = table.Flush() // a Builder accepts all
	fmt.Fprintf(&text, "%d samples, %d failed reads", r.samples, r.failures)
	if r.err != nil {
		fmt.Fprintf(&text, "; the last: %s", plaintext.Clean(r.err.Error()))
	}
	return text.String() + "\n"
}

// limits describes the limits of a channel, and whether readings were outside.
func (r *ranges) limits(i int) string {
	c := r.spec.Obs[i]
	if c.Min == 0 && c.Max == 0 {
		return "none"
	}
	text := fmt.Sprintf("%g to %g", c.Min, c.Max)
	if r.samples > 0 && (r.least[i] < c.Min || r.most[i] > c.Max) {
		text += " (exceeded)"
	}
	return text
}

// result returns an error if no reading succeeded.
func (r *ranges) result() error {
	if r.samples == 0 {
		return fmt.Errorf("sense: no read succeeded: %w", r.err)
	}
	return nil
}
