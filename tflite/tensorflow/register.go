package tensorflow

import (
	"fmt"
	"strings"

	"optibfm/internal/registry"
	"optibfm/tflite"
)

// Register registers the backend tensorflow, which also evaluates SavedModels.
func Register() {
	const name = "tensorflow"
	registry.AddBackend(name, "TensorFlow is used if backend is tensorflow or the bundle is a SavedModel.",
		DefaultConfig(), func(c Config, b *tflite.Bundle, w registry.Workload) (tflite.Model, error) {
			return New(b, c, w.Candidates)
		})
	var missing error
	if !Built {
		missing = ErrNotBuilt
	}
	registry.AddSavedModels(registry.SavedModels{
		Section: name, Missing: missing, NoDevice: ErrNoDevice,
		Open: func(section any, m tflite.SavedModel, u registry.SavedModelUse) (tflite.Evaluator, error) {
			c := section.(Config)
			if u.OnCPU {
				c.Device = "/CPU:0"
			}
			if u.OneThread { // inter_op_threads 1 would use a second thread, without real-time priority
				c.IntraOpThreads, c.InterOpThreads = 1, -1
			}
			return LoadSavedModel(m, c, u.Candidates)
		},
	})
}

// ScoreTolerance implements registry.Rounding.
func (c Config) ScoreTolerance() float64 {
	if c.TF32 {
		return 1e-2
	}
	return 1e-4
}

func (r Report) String() string {
	var devices []string
	for _, d := range r.Devices {
		name := strings.TrimPrefix(d.Name, "/device:")
		if d.Type == "GPU" {
			name += fmt.Sprintf(" (%d MiB)", d.Memory>>20)
		}
		devices = append(devices, name)
	}
	return fmt.Sprintf("TensorFlow  %s, %s\ndevices     %s; the graph is on %s",
		r.Version, r.Library, strings.Join(devices, ", "), r.Device)
}
