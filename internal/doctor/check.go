package doctor

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"optibfm/rtloop"
)

// The statuses of a finding.
const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
	statusSkip = "skip" // not looked at; Found says why
)

// finding is what a check found about one subject.
type finding struct {
	ID      string `json:"id"`                // stable, such as rt.fifo
	Group   string `json:"group"`             // for people
	Subject string `json:"subject,omitempty"` // which of several: a device, an interface
	Status  string `json:"status"`            // ok, warn, fail or skip
	Found   string `json:"found"`
	Mend    string `json:"mend,omitempty"` // what to do about it
	// Strict says that this is a warning only because loop.posture is not
	// strict.
	Strict bool               `json:"strict,omitempty"`
	Values map[string]float64 `json:"values,omitempty"` // keys carry their unit
}

func fine(format string, args ...any) finding {
	return finding{Status: statusOK, Found: fmt.Sprintf(format, args...)}
}

func skipped(format string, args ...any) finding {
	return finding{Status: statusSkip, Found: fmt.Sprintf(format, args...)}
}

// doubtful is a warning under any posture.
func doubtful(mend, format string, args ...any) finding {
	return finding{Status: statusWarn, Found: fmt.Sprintf(format, args...), Mend: mend}
}

// lacking is a warning that the posture strict makes a failure.
func lacking(mend, format string, args ...any) finding {
	f := doubtful(mend, format, args...)
	f.Strict = true
	return f
}

func broken(mend, format string, args ...any) finding {
	return finding{Status: statusFail, Found: fmt.Sprintf(format, args...), Mend: mend}
}

// about names the subject of a finding.
func (f finding) about(subject string) finding {
	f.Subject = subject
	return f
}

// with adds numbers to a finding.
func (f finding) with(values map[string]float64) finding {
	f.Values = values
	return f
}

// check looks at one thing, or at several of one kind.
type check struct {
	id    string
	limit time.Duration // after which it is taken for hung; 0: checkLimit
	run   func(ctx context.Context) []finding
}

const checkLimit = 5 * time.Second

// single is a check with one finding that waits for nothing.
func single(id string, run func() finding) check {
	return check{id: id, run: func(context.Context) []finding { return []finding{run()} }}
}

// groupTitles names the groups of checks, by what stands before the dot of
// their ids.
var groupTitles = map[string]string{
	"config": "configuration", "system": "system", "rt": "real time", "cpu": "processors", "memory": "memory", "clock": "clock",
	"disk": "disk", "device": "devices", "operator": "operator", "model": "model",
}

func groupOf(id string) string {
	section, _, _ := strings.Cut(id, ".")
	return groupTitles[section]
}

// perform runs a check to its end or to its limit, whatever it does. One that
// hangs is left behind: the process ends soon.
func (c check) perform(ctx context.Context, posture string) []finding {
	limit := c.limit
	if limit == 0 {
		limit = checkLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan []finding, 1)
	go func() { done <- c.guarded(ctx) }()
	var found []finding
	select {
	case found = <-done:
	case <-ctx.Done():
		found = c.unfinished(ctx, done, limit)
	}
	for i := range found {
		f := &found[i]
		f.ID, f.Group = c.id, groupOf(c.id)
		if f.Strict && f.Status == statusWarn && posture == rtloop.Strict {
			f.Status = statusFail
		}
	}
	return found
}

// grace is the time that a check has to say what it has when it is called off.
const grace = 200 * time.Millisecond

func (c check) unfinished(ctx context.Context, done <-chan []finding, limit time.Duration) []finding {
	select {
	case found := <-done:
		return found
	case <-time.After(grace):
	}
	if context.Cause(ctx) == context.Canceled {
		return []finding{skipped("interrupted")}
	}
	return []finding{broken("see `dmesg` for what hangs; a run would hang there too", "it did not end within %v", limit)}
}

// guarded turns a panic into a finding.
func (c check) guarded(ctx context.Context) (found []finding) {
	defer func() {
		if r := recover(); r != nil {
			found = []finding{broken("report this with the configuration", "the check itself failed: %v in %s", r, panicPlace(debug.Stack()))}
		}
	}()
	return c.run(ctx)
}

// panicPlace is the first line of ours in a stack after the panic.
func panicPlace(stack []byte) string {
	_, after, _ := strings.Cut(string(stack), "panic(")
	for line := range strings.Lines(after) {
		if _, file, ok := strings.Cut(line, "/internal/doctor/"); ok {
			place, _, _ := strings.Cut(strings.TrimSpace(file), " ")
			return place
		}
	}
	return "unknown place"
}
