//go:build tensorflow

package tensorflow_test

import (
	"fmt"
	"runtime"
	"testing"

	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// BenchmarkSearch128 is the search of the paper's walker on the CPU, beside
// the native one of the same bundle.
func BenchmarkSearch128(b *testing.B) {
	dims := tflite.Dims{Obs: 24, Action: 6, Latent: 50, Ensemble: 2}
	for _, hidden := range []int{256, 1024} {
		m := tflitetest.Manifest(dims)
		m.Architecture.F.Hidden, m.Architecture.Actor.Hidden, m.Architecture.B.Hidden = hidden, hidden, hidden
		made := bundle(b, m)
		q := ask(dims, 128)
		for _, backend := range []string{"native", "tensorflow"} {
			b.Run(fmt.Sprintf("hidden=%d/%s", hidden, backend), func(b *testing.B) {
				var model tflite.Model = native(b, made)
				if backend == "tensorflow" {
					runtime.GC()
					before := residentKiB(b)
					model = open(b, made, onCPU(), 128)
					defer func() { b.ReportMetric(float64(residentKiB(b)-before)/1024, "MiB-resident") }()
				}
				q.of(b, model)
				b.ReportAllocs()
				for b.Loop() {
					q.of(b, model)
				}
			})
		}
	}
}
