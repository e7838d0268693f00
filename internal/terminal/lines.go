package terminal

import (
	"io"
	"math"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/journal"
	"optibfm/internal/plaintext"
	"optibfm/internal/recorder"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
)

// LineDisplay writes a line every few seconds and for each event: as text for people, as text with
// priorities for systemd's journal, or as JSON for a collector of logs.
type LineDisplay struct {
	log      zerolog.Logger
	stats    *recorder.Statistics
	invoked  shell.Invocation
	person   bool   // labels, and must not see a simulator's task and reward
	episodes uint64 // already shown
	last     time.Time
}

// NewLineDisplay returns a display of lines on out: ShowLines, ShowJournal or ShowJSON.
func NewLineDisplay(out io.Writer, show string) *LineDisplay {
	switch show {
	case ShowJSON:
	case ShowJournal:
		out = journalLines{out}
	default:
		out = zerolog.ConsoleWriter{Out: out, NoColor: true, TimeFormat: time.TimeOnly}
	}
	return &LineDisplay{log: zerolog.New(out).With().Timestamp().Logger()}
}

// journalLines writes lines for systemd's journal, which records time and priority itself.
type journalLines struct{ io.Writer }

// WriteLevel implements zerolog.LevelWriter.
func (w journalLines) WriteLevel(level zerolog.Level, event []byte) (int, error) {
	priority := journal.Info
	switch {
	case level >= zerolog.ErrorLevel:
		priority = journal.Error
	case level == zerolog.WarnLevel:
		priority = journal.Warning
	}
	return zerolog.ConsoleWriter{
		Out: journal.NewWriter(w.Writer, priority), NoColor: true,
		PartsExclude: []string{zerolog.TimestampFieldName, zerolog.LevelFieldName},
	}.Write(event)
}

func (d *LineDisplay) Begin(s *setup.Session, spec hal.Spec, _ []string, y *recorder.Statistics) {
	d.stats, d.last, d.invoked = y, time.Now(), s.Invoked
	line := d.log.Info().Str("robot", plaintext.Clean(spec.Name))
	d.person = s.File.Operator.ByPerson()
	if task := s.Task(); task != "" && !d.person {
		line = line.Str("task", plaintext.Clean(task))
	}
	line.Str("strategy", s.File.Controller.Strategy).Float64("hz", 1/spec.Period.Seconds()).Msg("run started")
	if s.File.Operator.Source == configs.SourceKeyboard {
		d.log.Info().Msg("keys: " + strings.Join(fewKeysOf(s.File), ", "))
	}
	if s.File.Safety.Arm == configs.ArmOperator {
		d.log.Info().Msg("disarmed; to enable motion: " + plaintext.Clean(s.Invoked.OperatorCommand("arm")))
	}
	if s.File.Run.Shadow {
		d.log.Info().Msg("shadow: the robot is neither armed nor moved")
	}
}

// Outcome shows a label that does not count.
func (d *LineDisplay) Outcome(_ *controller.Tick, l *controller.AppliedLabel) {
	if l.Outcome != controller.Applied && l.Outcome != controller.ClosedRequest {
		d.log.Warn().Msgf("%s does NOT count: %v", appliedName(l), l.Outcome)
	}
}

func (d *LineDisplay) Tick(*controller.Tick) {
	y := d.stats
	if d.episodes < y.Episodes { // a tick ends one episode at most
		d.episodes = y.Episodes
		line := d.log.Info().Uint64("episode", d.episodes)
		if !d.person {
			line = line.Float64("return", round3(y.Returns[len(y.Returns)-1]))
		}
		line.Uint64("labels", y.Last.Counted).Msg("episode finished")
	}
	if now := time.Now(); now.Sub(d.last) >= 5*time.Second {
		d.last = now
		d.log.Info().Uint64("tick", y.Last.Index).Uint64("labels", y.Last.Counted).Uint64("asked", y.Asked).
			Float64("dgap", round3(y.Last.DGap)).Float64("lateness_p99_us", recorder.Micros(y.Lateness, 99)).
			Msg("running")
	}
}

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }

// Label shows nothing: events report refused labels, once a second at most.
func (d *LineDisplay) Label(rewardsrc.Label, error) {}

func (d *LineDisplay) Notice(n keyboard.Notice) {
	if n.Text != "" && n.Event != rewardsrc.Refused {
		d.log.Info().Msg(plaintext.Clean(d.invoked.Renamed(n.Text)))
	}
}

func (d *LineDisplay) Event(e flightlog.Event) {
	level := zerolog.InfoLevel
	switch e.Level {
	case flightlog.Warn:
		level = zerolog.WarnLevel
	case flightlog.Error:
		level = zerolog.ErrorLevel
	}
	d.log.WithLevel(level).Msg(plaintext.Clean(d.invoked.Renamed(e.Text)))
}

func (d *LineDisplay) ToggleDetails() {}

func (d *LineDisplay) End() {}

// LineWriter copies lines to a writer that may block, such as a paused terminal or a pager. Write
// never waits: lines beyond a small queue are dropped. One goroutine uses it.
type LineWriter struct {
	lines  chan []byte
	done   chan struct{}
	closed bool
}

// NewLineWriter starts writing to out.
func NewLineWriter(out io.Writer) *LineWriter {
	w := &LineWriter{lines: make(chan []byte, 64), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for line := range w.lines {
			_, _ = out.Write(line) // the log has everything that is lost here
		}
	}()
	return w
}

// Write queues a copy of p.
func (w *LineWriter) Write(p []byte) (int, error) {
	if w.closed {
		return 0, io.ErrClosedPipe
	}
	select {
	case w.lines <- append([]byte(nil), p...):
	default:
	}
	return len(p), nil
}

// Close waits until every queued line is written, but not long for a reader that has stopped.
func (w *LineWriter) Close() error {
	if !w.closed {
		w.closed = true
		close(w.lines)
		waitBriefly(w.done)
	}
	return nil
}
