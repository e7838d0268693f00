package control

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/fatal"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
	"optibfm/internal/terminal"
	"optibfm/rtloop"
)

// warner is a hal.Warner.
type warner struct{ warning error }

func (w *warner) Warning() error { return w.warning }

// sentWarnings are warnings that report to the test, up to a number of free slots.
type sentWarnings struct {
	*warnings
	robot         *warner
	demotions     uint64
	priorityError error
	room          int
	sent          []string
}

func newSentWarnings() *sentWarnings {
	s := &sentWarnings{robot: &warner{}, room: 100}
	s.warnings = &warnings{
		robot: s.robot, refusal: new(atomic.Pointer[error]), limit: rate.NewLimiter(rate.Inf, 0),
		live: func() rtloop.Live { return rtloop.Live{Demoted: s.demotions, PriorityError: s.priorityError} },
		send: func(text string) bool {
			if s.room == 0 {
				return false
			}
			s.room--
			s.sent = append(s.sent, text)
			return true
		},
	}
	return s
}

func (s *sentWarnings) want(t *testing.T, want ...string) {
	t.Helper()
	s.sent = nil
	s.report()
	if !slices.Equal(s.sent, want) {
		t.Errorf("sent %q, want %q", s.sent, want)
	}
}

func TestWarnings_ReportsChangesOfTheRobot(t *testing.T) {
	s := newSentWarnings()
	s.want(t)
	s.robot.warning = errors.New("the battery is low")
	s.want(t, "the battery is low")
	s.robot.warning = errors.New("the battery is low") // another error with the same text
	s.want(t)
	s.robot.warning = errors.New("motor 3 is hot")
	s.want(t, "motor 3 is hot")
	s.robot.warning = nil
	s.want(t)
	s.robot.warning = errors.New("motor 3 is hot")
	s.want(t, "motor 3 is hot")
	s.limit = rate.NewLimiter(0, 1)
	for range 5 { // at its threshold
		s.robot.warning = nil
		s.report()
		s.robot.warning = errors.New("motor 4 is hot")
		s.report()
	}
	if len(s.sent) != 2 {
		t.Errorf("the limit of 1 let through: %q", s.sent[1:])
	}
}

func TestWarnings_KeepsWhatTheHostHasNoRoomFor(t *testing.T) {
	s := newSentWarnings()
	s.room, s.demotions, s.robot.warning = 0, 1, errors.New("the battery is low")
	refusal := errors.New("no plan")
	s.refusal.Store(&refusal)
	s.want(t)
	s.room = 3
	s.want(t, "not armed: no plan", ipc.DemotedWarning+" (1 times)", "the battery is low")
	s.room = 3
	s.want(t)
}

func TestWarnings_ReportsDemotionsWhenTheirNumberDoubles(t *testing.T) {
	s := newSentWarnings()
	var reported []uint64
	for s.demotions = range uint64(40) {
		s.sent = nil
		if s.report(); len(s.sent) > 0 {
			reported = append(reported, s.demotions)
		}
	}
	if want := []uint64{1, 2, 4, 8, 16, 32}; !slices.Equal(reported, want) {
		t.Errorf("reported %d, want %d", reported, want)
	}
}

func TestWarnings_ReportsAPriorityErrorOnce(t *testing.T) {
	s := newSentWarnings()
	for _, c := range []struct {
		now  error
		want []string
	}{
		{nil, nil},
		{syscall.EPERM, []string{ipc.PriorityWarning + "operation not permitted"}},
		{syscall.EPERM, nil},
		{nil, nil},
		{syscall.EPERM, []string{ipc.PriorityWarning + "operation not permitted"}},
	} {
		s.priorityError = c.now
		s.want(t, c.want...)
	}
}

// TestRun_ReportsAWarningOfTheRobot checks log, lines and status.
func TestRun_ReportsAWarningOfTheRobot(t *testing.T) {
	const text = "unitree: the battery is below 30 %"
	robot, r := newArmed(t, configs.AfterStopHold)
	r.warner = &warner{errors.New(text)}
	h := newTestHost(t, r, robot.Spec(), time.Now)
	var shown bytes.Buffer
	h.Recorder.Display = terminal.NewLineDisplay(&shown, terminal.ShowLines)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	robot.sense = func() {
		if h.TakeNotes(); shown.Len() > 0 {
			cancel()
		}
	}
	fatal.If(t, r.loopWith(ctx, rtloop.Config{PeriodMS: 5, MaxMissed: rtloop.NoLimit}))
	rigtest.Contains(t, shown.String(), "WRN "+text)
	fatal.If(t, h.Close())
	log, err := flightlog.Open(filepath.Join(r.session.File.Log.Dir, "run.mcap"))
	fatal.If(t, err)
	defer log.Close()
	var recorded []string
	for record, err := range log.Records() {
		fatal.If(t, err)
		if e := record.Event; e != nil && e.Level == flightlog.Warn {
			recorded = append(recorded, e.Text)
		}
	}
	if !slices.Equal(recorded, []string{text}) {
		t.Errorf("the log has the warnings %q", recorded)
	}
	live := func() rtloop.Live { return rtloop.Live{Demoted: 3} }
	server := &Server{mailbox: &r.mailbox, live: live, console: new(atomic.Uint64), warner: r.warner}
	status := server.status(nil)
	for _, want := range []string{"warning: " + text, "warning: " + ipc.DemotedWarning + " (3 times)"} {
		if !strings.Contains(status.Text(), "\n"+want+"\n") {
			t.Errorf("no %q in the status:\n%s", want, status.Text())
		}
	}
}
