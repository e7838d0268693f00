package flightlog

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"optibfm/controller"
	"optibfm/internal/fatal"
)

// benchTicks returns ticks of a robot with 17 observations, 6 actions and a new plan every
// fifth tick.
func benchTicks(d int) []*controller.Tick {
	s := controller.Shape{Obs: 17, Action: 6, Latent: d}
	ticks := make([]*controller.Tick, 64)
	for i := range ticks {
		ticks[i] = randomTick(s, uint64(i))
		ticks[i].NumLabels = 0
		if i%5 != 0 {
			copy(ticks[i].Z, ticks[i-1].Z)
		}
	}
	return ticks
}

func BenchmarkWriteTick(b *testing.B) {
	for _, d := range []int{24, 50} {
		for _, compress := range []bool{false, true} {
			b.Run(fmt.Sprintf("d=%d/compress=%v", d, compress), func(b *testing.B) {
				ticks := benchTicks(d)
				meta := testMetadata(controller.Shape{Obs: 17, Action: 6, Latent: d})
				w, _ := create(b, meta, Options{NoSync: true, Compress: compress})
				before := w.Stats().Bytes
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					t := ticks[i%len(ticks)]
					t.Index, t.Elapsed = uint64(i), uint64(min(i, 1))
					fatal.If(b, w.WriteTick(t))
					if i%13 == 12 { // 250 ms at 50 Hz
						fatal.If(b, w.Flush())
					}
				}
				fatal.If(b, w.Flush())
				b.ReportMetric(float64(w.Stats().Bytes-before)/float64(b.N), "B/tick")
				fatal.If(b, w.Close())
			})
		}
	}
}

// BenchmarkWriteLabel measures the wait before an acknowledgement, mostly fsync.
func BenchmarkWriteLabel(b *testing.B) {
	w, _ := create(b, testMetadata(testShape), Options{})
	for i := 0; b.Loop(); i++ {
		fatal.If(b, w.WriteLabel(testLabel(uint64(i+1))))
	}
	s := w.Stats()
	b.ReportMetric(float64(s.SyncTotal.Nanoseconds())/float64(s.Syncs), "ns/fsync")
	b.ReportMetric(float64(s.SyncMax.Nanoseconds()), "ns-slowest")
	fatal.If(b, w.Close())
}

func BenchmarkReadTick(b *testing.B) {
	w, path := create(b, testMetadata(testShape), Options{NoSync: true})
	const n = 1000
	for i := range uint64(n) {
		fatal.If(b, w.WriteTick(randomTick(testShape, i)))
	}
	fatal.If(b, w.Close())
	log, err := os.ReadFile(path)
	fatal.If(b, err)
	for b.Loop() {
		r, err := NewReader(bytes.NewReader(log), int64(len(log)))
		fatal.If(b, err)
		for _, err := range r.Records() {
			fatal.If(b, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/tick")
}
