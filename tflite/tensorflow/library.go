//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/ebitengine/purego"
)

// Built reports whether this program can load TensorFlow.
const Built = true

// libraryFile has the C API in the pip wheels. It loads the libraries beside it.
const libraryFile = "libtensorflow_cc.so.2"

// oldestMajor and oldestMinor are the oldest version with the C API and the
// operations that this package uses: that of JetPack 6.
const oldestMajor, oldestMinor = 2, 16

// library is TensorFlow in this process: loaded once, never unloaded.
var library struct {
	sync.Mutex
	path string
	api  *api
}

// load opens the library, or returns the one that is open.
func load(configured string) (*api, string, error) {
	library.Lock()
	defer library.Unlock()
	if library.api != nil {
		if configured != "" && resolve(configured) != library.path {
			return nil, "", fmt.Errorf("tensorflow: library: cannot load %s: this process has loaded %s; use one",
				configured, library.path)
		}
		return library.api, library.path, nil
	}
	path, handle, err := open(candidates(configured))
	if err != nil {
		return nil, "", err
	}
	a, err := bind(handle)
	if err != nil {
		return nil, "", fmt.Errorf("tensorflow: %s: %w", path, err)
	}
	if err := checkVersion(a.version()); err != nil {
		return nil, "", fmt.Errorf("tensorflow: %s: %w", path, err)
	}
	library.api, library.path = a, path
	return a, path, nil
}

// candidates lists the possible paths of the library: the configured one alone, or
// the one of OPTIBFM_TENSORFLOW alone, or the default ones.
func candidates(configured string) []string {
	if configured != "" {
		return []string{resolve(configured)}
	}
	if dir := os.Getenv("OPTIBFM_TENSORFLOW"); dir != "" {
		return []string{resolve(dir)}
	}
	var files []string
	if data := os.Getenv("XDG_DATA_HOME"); data != "" {
		files = append(files, filepath.Join(data, "optibfm", "tensorflow", libraryFile))
	} else if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".local", "share", "optibfm", "tensorflow", libraryFile))
	}
	return append(files, filepath.Join("/opt/optibfm/tensorflow", libraryFile), libraryFile)
}

// resolve returns the absolute path of the library, given its file or its folder.
func resolve(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, libraryFile)
	}
	return path
}

// open loads the first library that exists.
func open(files []string) (string, uintptr, error) {
	setEnvironment()
	var tried []string
	for _, path := range files {
		if filepath.IsAbs(path) {
			if _, err := os.Stat(path); err != nil {
				tried = append(tried, err.Error())
				continue
			}
		}
		handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err == nil {
			return path, handle, nil
		}
		if filepath.IsAbs(path) {
			return "", 0, fmt.Errorf("tensorflow: %w: the file exists but does not load (%w); "+
				"run scripts/install-tensorflow.sh again", ErrNoLibrary, err)
		}
		tried = append(tried, err.Error())
	}
	return "", 0, fmt.Errorf("tensorflow: %w (%s); run scripts/install-tensorflow.sh, "+
		"or set model.tensorflow.library to its folder", ErrNoLibrary, strings.Join(tried, "; "))
}

// setEnvironment sets the variables that TensorFlow reads while it loads. os.Setenv also sets
// them for the C library, because purego links the runtime with it.
func setEnvironment() {
	if _, ok := os.LookupEnv("TF_CPP_MIN_LOG_LEVEL"); !ok {
		_ = os.Setenv("TF_CPP_MIN_LOG_LEVEL", "2") // errors only; Setenv fails for invalid names alone
	}
	// oneDNN's ReLU turns NaN into 0: an overflow in a SavedModel would give plausible
	// numbers on those processors on which TensorFlow uses oneDNN by default.
	_ = os.Setenv("TF_ENABLE_ONEDNN_OPTS", "0")
}

func checkVersion(version string) error {
	var numbers [2]int
	parts := strings.SplitN(version, ".", 3)
	for i := range min(2, len(parts)) {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return versionError(strconv.Quote(version))
		}
		numbers[i] = n
	}
	if numbers[0] != oldestMajor || numbers[1] < oldestMinor {
		return versionError(version)
	}
	return nil
}

func versionError(version string) error {
	return fmt.Errorf("%w (%s); install %d.%d or a later 2.x with scripts/install-tensorflow.sh",
		ErrVersion, version, oldestMajor, oldestMinor)
}

// bind finds the functions of the C API.
func bind(handle uintptr) (*api, error) {
	a := new(api)
	var missing []string
	for name, function := range a.functions() {
		address, err := purego.Dlsym(handle, name)
		if err != nil {
			missing = append(missing, name)
			continue
		}
		switch f := function.(type) {
		case *uintptr:
			*f = address
		default:
			purego.RegisterFunc(function, address)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: missing functions: %s", ErrVersion, strings.Join(missing, ", "))
	}
	// Optional, because it is not in the C API: the function behind
	// tf.config.experimental.enable_tensor_float_32_execution.
	if address, err := purego.Dlsym(handle, "_ZN3tsl32enable_tensor_float_32_executionEb"); err == nil {
		purego.RegisterFunc(&a.enableTF32, address)
	}
	return a, nil
}

var errTF32 = errors.New("tensorflow: tf32 is false, but this library cannot disable it; " +
	"set tf32 to true (and expect errors of 1e-2), or use another version")

// setTF32 enables or disables TF32 in the whole process.
func (a *api) setTF32(on bool) error {
	if a.enableTF32 == nil {
		if on { // TensorFlow's default
			return nil
		}
		return errTF32
	}
	a.enableTF32(on)
	return nil
}
