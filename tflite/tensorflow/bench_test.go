//go:build tensorflow

package tensorflow_test

import (
	"fmt"
	"runtime"
	"testing"

	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// BenchmarkSearch128 compares the search on the CPU with the native one, at the sizes of
// the paper's walker.
func BenchmarkSearch128(b *testing.B) {
	dims := tflite.Dims{Obs: 24, Action: 6, Latent: 50, Ensemble: 2}
	for _, hidden := range []int{256, 1024} {
		m := tflitetest.Manifest(dims)
		m.Architecture.F.Hidden, m.Architecture.Actor.Hidden, m.Architecture.B.Hidden = hidden, hidden, hidden
		made := bundle(b, m)
		q := randomInput(dims, 128)
		for _, backend := range []string{"native", "tensorflow"} {
			b.Run(fmt.Sprintf("hidden=%d/%s", hidden, backend), func(b *testing.B) {
				var model tflite.Model = native(b, made)
				if backend == "tensorflow" {
					runtime.GC()
					before := residentKiB(b)
					model = open(b, made, onCPU(), 128)
					defer func() { b.ReportMetric(float64(residentKiB(b)-before)/1024, "MiB-resident") }()
				}
				q.search(b, model)
				b.ReportAllocs()
				for b.Loop() {
					q.search(b, model)
				}
			})
		}
	}
}
