package tensorflow

import (
	"errors"
	"fmt"
	"regexp"

	"optibfm/tflite"
)

// What New's errors wrap.
var (
	ErrNotBuilt  = errors.New("this program was built without TensorFlow: build it with `go build -tags tensorflow ./cmd/optibfm`, and install the library with scripts/install-tensorflow.sh")
	ErrNoLibrary = errors.New("the TensorFlow library was not found")
	ErrVersion   = errors.New("the TensorFlow library is of the wrong version")
	ErrNoDevice  = errors.New("TensorFlow does not have the device")
)

// Config chooses where and how TensorFlow evaluates the networks.
type Config struct {
	// Device is where the whole graph is placed: /GPU:0, /CPU:0... Nothing
	// of it is moved elsewhere silently.
	Device string `yaml:"device"`
	// Library is the folder of libtensorflow_cc.so.2, or the file itself.
	// Empty: OPTIBFM_TENSORFLOW, the install script's folders, then the
	// system's.
	Library string `yaml:"library"`
	// IntraOpThreads work on one operation. 0: as many as cores.
	IntraOpThreads int `yaml:"intra_op_threads"`
	// InterOpThreads run operations side by side. 0: as many as cores;
	// -1: none, operations run one after the other on the calling thread.
	InterOpThreads int `yaml:"inter_op_threads"`
	// TF32 lets a GPU round the inputs of products to 10 bits of mantissa:
	// faster, with relative errors of 1e-2 instead of 1e-4.
	TF32 bool `yaml:"tf32"`
	// AllowGrowth takes GPU memory as it is needed, not all at the start:
	// on a Jetson it is the same memory as everybody's.
	AllowGrowth bool `yaml:"allow_growth"`
}

// DefaultConfig is the first GPU in full precision.
func DefaultConfig() Config {
	return Config{Device: "/GPU:0", InterOpThreads: -1, AllowGrowth: true}
}

var deviceName = regexp.MustCompile(`^/(CPU|GPU):[0-9]{1,2}$`)

// maxThreads is more than any companion computer has cores.
const maxThreads = 1024

// Validate reports the values that cannot be, each as "tensorflow: key ...".
func (c Config) Validate() error {
	var errs []error
	if !deviceName.MatchString(c.Device) {
		errs = append(errs, fmt.Errorf("tensorflow: device is no device (%q): write /GPU:0 or /CPU:0", c.Device))
	}
	if c.IntraOpThreads < 0 || c.IntraOpThreads > maxThreads {
		errs = append(errs, fmt.Errorf("tensorflow: intra_op_threads is out of range (%d): 0 for all cores, at most %d", c.IntraOpThreads, maxThreads))
	}
	if c.InterOpThreads < -1 || c.InterOpThreads > maxThreads {
		errs = append(errs, fmt.Errorf("tensorflow: inter_op_threads is out of range (%d): -1 for the calling thread, 0 for all cores, at most %d", c.InterOpThreads, maxThreads))
	}
	return errors.Join(errs...)
}

// Model is a model evaluated by TensorFlow. As any tflite.Model it is used by
// one goroutine at a time.
type Model interface {
	tflite.Evaluator
	// Report says what the model runs on.
	Report() Report
	// Close gives the memory of the session back. The library stays loaded:
	// TensorFlow cannot be unloaded.
	Close() error
}

// Differentiable is a Model whose score can be climbed.
type Differentiable interface {
	Model
	tflite.Differentiable
}

// Report says what a Model runs on.
type Report struct {
	Version string   // of TensorFlow
	Library string   // the file that was loaded
	Device  string   // that the graph is placed on
	Devices []Device // that the session has
	Kernels []Kernel // of the operations that the graph has
}

// Device is one that TensorFlow found.
type Device struct {
	Name, Type string // such as /device:GPU:0, GPU
	Memory     int64  // bytes that TensorFlow may take; 0: it does not say
}

// Kernel tells for which devices this library has an operation, at the
// operation's types in the graph.
type Kernel struct {
	Op       string
	Nodes    int // operations of the kind in the graph
	CPU, GPU bool
}
