package tensorflowgo

import (
	"optibfm"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// Config is the section model.tensorflow-go: that of package tensorflow, which describes the keys,
// without library.
type Config struct {
	Device         string `yaml:"device"`
	IntraOpThreads int    `yaml:"intra_op_threads" rule:"[0, 1024]"`
	InterOpThreads int    `yaml:"inter_op_threads" rule:"[-1, 1024]"`
	TF32           bool   `yaml:"tf32"`
	AllowGrowth    bool   `yaml:"allow_growth"`
}

// DefaultConfig is the first GPU in full precision.
func DefaultConfig() Config {
	c := tensorflow.DefaultConfig()
	return Config{c.Device, c.IntraOpThreads, c.InterOpThreads, c.TF32, c.AllowGrowth}
}

func (c Config) options() tensorflow.Config {
	return tensorflow.Config{Device: c.Device, IntraOpThreads: c.IntraOpThreads, InterOpThreads: c.InterOpThreads,
		TF32: c.TF32, AllowGrowth: c.AllowGrowth}
}

// Validate returns an error for each invalid value.
func (c Config) Validate() error { return c.options().Validate() }

// ScoreTolerance is the largest relative difference from the native scores that is not a fault.
func (c Config) ScoreTolerance() float64 { return c.options().ScoreTolerance() }

// Open is the backend's function for optibfm.RegisterBackend.
func Open(c Config, b *tflite.Bundle, w optibfm.Workload) (tflite.Model, error) {
	return New(b, c, w.Candidates)
}
