package report

import (
	"io"
	"os"
	"testing"

	"optibfm/internal/fatal"
)

// BenchmarkWrite_Hour writes the page of an hour at 50 Hz with d = 50. If the variable
// OPTIBFM_REPORT holds a path, the page stays there.
func BenchmarkWrite_Hour(b *testing.B) {
	s := simulated()
	s.Latent, s.Ticks, s.Config.Gate.Kappa, s.Config.Gate.RequestsPerMinute = 50, 180_000, 0.5, 20
	log := s.write(b)
	stat, err := os.Stat(log)
	fatal.If(b, err)
	page := int64(0)
	for b.Loop() {
		out := io.Writer(io.Discard)
		if path := os.Getenv("OPTIBFM_REPORT"); path != "" {
			file, err := os.Create(path)
			fatal.If(b, err)
			defer func() { _ = file.Close() }()
			out = file
		}
		made, err := Write(out, open(b, log), log, &Labelling{})
		fatal.If(b, err)
		page = made.Bytes
	}
	b.ReportMetric(float64(page)/1e6, "MB/page")
	b.ReportMetric(float64(stat.Size())/1e6, "MB/log")
}
