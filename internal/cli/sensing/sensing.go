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
	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// Run opens the robot of a configuration, reads its sensors until ctx ends, and closes it. It never
// arms the robot.
func Run(ctx context.Context, config string, set []string, out io.Writer) (err error) {
	file, err := configs.Load(config, set...)
	if err != nil {
		return err
	}
	if setup.Simulated(file.Robot) {
		return errors.New("sense: this robot is simulated: nobody can move it by hand")
	}
	file.Safety.Group = "" // the socket answers no caller
	held, err := control.Listen(file.Safety)
	if errors.Is(err, control.ErrSocketInUse) {
		return fmt.Errorf("sense: %w", err)
	}
	if err == nil { // else no run could start with this configuration
		defer func() { err = errors.Join(err, held.Close()) }()
	}
	robot, err := setup.OpenDriver(ctx, file, rtloop.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, setup.CloseRobot(robot)) }()
	return watch(ctx, robot, out)
}

// redrawS is the time between two tables on a terminal.
const redrawS = 0.2

// watch reads a robot once a period until ctx ends. On a terminal it draws the table again and again,
// as much of it as fits, elsewhere once at the end.
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
			if live {
				_, _ = io.WriteString(out, clearScreen)
			}
			_, _ = io.WriteString(out, r.table())
			return r.result()
		case <-ticker.C:
		}
	}
}

// ranges are the readings of a robot's sensors.
type ranges struct {
	spec              hal.Spec
	now               []float32
	least, most       []float64
	samples, failures int
	err               error // of the newest failure
}

func newRanges(spec hal.Spec) *ranges {
	r := &ranges{spec: spec, now: make([]float32, len(spec.Obs))}
	for range spec.Obs {
		r.least, r.most = append(r.least, math.Inf(1)), append(r.most, math.Inf(-1))
	}
	return r
}

func (r *ranges) read(robot hal.Robot) {
	if _, err := robot.Sense(r.now); err != nil {
		r.failures, r.err = r.failures+1, err
		return
	}
	r.samples++
	for i, x := range r.now {
		if x := float64(x); !math.IsNaN(x) {
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
		fmt.Fprintf(table, "%s\t%s\t%.4g\t%.4g\t%.4g\t%s\n",
			plaintext.Clean(c.Name), plaintext.Clean(c.Unit), r.now[i], r.least[i], r.most[i], r.limits(i))
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
	if r.least[i] < c.Min || r.most[i] > c.Max {
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
