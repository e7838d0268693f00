package tensorflow

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"optibfm/internal/keys"
	"optibfm/tflite"
	"optibfm/tflite/internal/wire"
)

// The errors of New and LoadSavedModel wrap these.
var (
	ErrNotBuilt = errors.New("this program was built without the tag tensorflow; " +
		"build both programs with `go build -tags tensorflow ./cmd/optibfm ./cmd/optibfm-lab` " +
		"and install the library with scripts/install-tensorflow.sh")
	ErrNoLibrary = errors.New("the TensorFlow library was not found")
	ErrVersion   = errors.New("unsupported version of the TensorFlow library")
	ErrNoDevice  = errors.New("TensorFlow does not have the device")
)

// Config chooses where and how TensorFlow evaluates the networks.
type Config struct {
	// Device holds the whole graph: /GPU:0, /CPU:0... TensorFlow moves no
	// part of the graph to another device.
	Device string `yaml:"device"`
	// Library is the folder of libtensorflow_cc.so.2, or the file itself.
	// Empty: OPTIBFM_TENSORFLOW, the install script's folders, then the
	// system's.
	Library string `yaml:"library"`
	// IntraOpThreads work on one operation. 0: as many as cores.
	IntraOpThreads int `yaml:"intra_op_threads" rule:"[0, 1024]"`
	// InterOpThreads run operations side by side. 0: as many as cores;
	// -1: none, operations run one after the other on the calling thread.
	InterOpThreads int `yaml:"inter_op_threads" rule:"[-1, 1024]"`
	// TF32 lets a GPU round the inputs of products to 10 bits of mantissa:
	// faster and less exact, see docs/gpu.md.
	TF32 bool `yaml:"tf32"`
	// AllowGrowth allocates GPU memory as it is needed, not all at the
	// start. A Jetson's GPU shares its memory with the CPU.
	AllowGrowth bool `yaml:"allow_growth"`
}

// DefaultConfig is the first GPU in full precision.
func DefaultConfig() Config {
	return Config{Device: "/GPU:0", InterOpThreads: -1, AllowGrowth: true}
}

var deviceName = regexp.MustCompile(`^/(CPU|GPU):[0-9]{1,2}$`)

// Validate returns an error for each invalid value, "tensorflow: KEY ...".
func (c Config) Validate() error {
	errs := []error{keys.Check("tensorflow", c)}
	if !deviceName.MatchString(c.Device) {
		errs = append(errs, fmt.Errorf("tensorflow: device: invalid (%q); use /GPU:0 or /CPU:0", c.Device))
	}
	return errors.Join(errs...)
}

// Proto encodes the session's ConfigProto, from tensorflow/core/protobuf/config.proto.
func (c Config) Proto() []byte {
	var raw []byte
	if strings.HasPrefix(c.Device, "/CPU") { // TensorFlow then opens no GPU
		raw = wire.AppendMessage(raw, 1, wire.AppendVarint(wire.AppendString(nil, 1, "GPU"), 2, 0)) // device_count
	}
	raw = wire.AppendVarint(raw, 2, uint64(c.IntraOpThreads))
	raw = wire.AppendVarint(raw, 5, uint64(int64(c.InterOpThreads)))
	raw = wire.AppendMessage(raw, 6, wire.AppendVarint(nil, 4, protowire.EncodeBool(c.AllowGrowth))) // gpu_options
	// allow_soft_placement
	raw = wire.AppendVarint(raw, 7, 0)
	// With inter_op_threads -1 operations run on the calling thread, but only in a
	// session without its own threads: with them -1 means all cores.
	return wire.AppendVarint(raw, 9, protowire.EncodeBool(c.InterOpThreads >= 0)) // use_per_session_threads
}

// Model is a model evaluated by TensorFlow. As any tflite.Model it is used by
// one goroutine at a time.
type Model interface {
	tflite.Evaluator
	// Report describes the library and the device.
	Report() Report
	// Close frees the session's memory. The library stays loaded:
	// TensorFlow cannot be unloaded.
	Close() error
}

// Report describes what a Model runs on.
type Report struct {
	Version string   // of TensorFlow
	Library string   // the loaded file
	Device  string   // of the graph
	Devices []Device // of the session
	Kernels []Kernel // of the graph's operations; empty for a SavedModel
}

// Device is one that TensorFlow found.
type Device struct {
	Name, Type string // such as /device:GPU:0, GPU
	Memory     int64  // bytes that TensorFlow may allocate; 0: unknown
}

// Kernel is an operation of the graph, with the devices for which the library
// has a kernel at the operation's types.
type Kernel struct {
	Op       string
	Nodes    int // of the graph
	CPU, GPU bool
}
