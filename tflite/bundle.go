package tflite

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"sync"

	"optibfm/internal/safefile"
)

// Files of a bundle, and of a metamotivo checkpoint.
const (
	manifestFileName = "bfm.json"
	// CheckpointFileName identifies the directory of a metamotivo checkpoint.
	CheckpointFileName = "config.json"
	initFileName       = "init_kwargs.json" // of a BFM-Zero or TD-JEPA checkpoint
	weightsFileName    = "model.safetensors"
	priorFileName      = "prior.safetensors"
)

// ErrNoCovariance is Phi's error for a model without cov_b.
var ErrNoCovariance = errors.New("tflite: φ needs cov_b, which the checkpoint does not have; " +
	"add it with optibfm model import CHECKPOINT --observations obs.npz --out BUNDLE")

// Bundle is a model in memory. It is read-only: any number of goroutines may use it and
// make Networks.
type Bundle struct {
	Manifest
	Hash    string // sha256 of the weights' file, hexadecimal
	Bytes   int    // of the weights in memory
	Float16 bool   // some weights are float16
	Prior   *Prior // of the tasks; nil: none
	weights *weights
}

// Load reads and verifies a bundle in fsys's root: bfm.json, model.safetensors and, if it
// has a prior, prior.safetensors. For an embedded bundle, use embed.FS with fs.Sub.
func Load(fsys fs.FS) (*Bundle, error) {
	b, err := load(fsys, &packing{})
	if err != nil {
		return nil, fmt.Errorf("tflite: %w", err)
	}
	return b, nil
}

func load(fsys fs.FS, packed *packing) (*Bundle, error) {
	text, err := safefile.ReadFile(fsys, manifestFileName, maxHeaderBytes)
	if err != nil {
		return nil, err
	}
	if formatOf(text) == savedFormatName {
		return nil, ErrSavedModel
	}
	described, err := parseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFileName, err)
	}
	tensors, hash, err := loadTensors(fsys, reading{memory: packed.to.tensor})
	if hash != "" && hash != described.Hash {
		return nil, fmt.Errorf("%s: sha256 is %s, want %s (%s); copy the bundle again",
			weightsFileName, hash, described.Hash, manifestFileName)
	}
	if err != nil {
		return nil, err
	}
	b, err := build(described.Manifest, tensors, hash, true, packed)
	if err != nil {
		return nil, err
	}
	b.Prior = described.Prior
	return b, b.Prior.read(fsys, b.Architecture.Obs, b.Architecture.Latent)
}

// LoadDir reads the model in a directory: a bundle, or a metamotivo FB, FB-CPR or BFM-Zero
// checkpoint (config.json and model.safetensors). Phi of a checkpoint without cov_b returns
// ErrNoCovariance; the other methods work. For a bundle of a SavedModel it returns ErrSavedModel;
// use LoadSavedModel.
func LoadDir(dir string) (*Bundle, error) {
	b, err := loadAny(safefile.Dir(dir), dir, &packing{})
	if err != nil {
		return nil, fmt.Errorf("tflite: %s: %w", dir, err)
	}
	return b, nil
}

func loadAny(fsys fs.FS, dir string, packed *packing) (*Bundle, error) {
	if _, err := fs.Stat(fsys, manifestFileName); !errors.Is(err, fs.ErrNotExist) {
		return load(fsys, packed)
	}
	if _, err := fs.Stat(fsys, CheckpointFileName); !errors.Is(err, fs.ErrNotExist) {
		return loadCheckpoint(fsys, filepath.Base(filepath.Clean(dir)), packed)
	}
	if _, err := fs.Stat(fsys, SavedModelFileName); err == nil {
		return nil, errors.New("this is a SavedModel; make a bundle with optibfm model import SAVEDMODEL --out BUNDLE")
	}
	return nil, fmt.Errorf("neither %s nor %s exists; use the directory of a bundle or of a checkpoint",
		manifestFileName, CheckpointFileName)
}

// loadTensors reads the weights' file and returns its sha256, also for a damaged file that can be
// read to its end.
func loadTensors(fsys fs.FS, o reading) (tensors map[string]Tensor, hash string, err error) {
	f, size, err := safefile.OpenIn(fsys, weightsFileName, maxWeightsBytes)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	content := &hashingReader{io.LimitReader(f, size), sha256.New()}
	if tensors, err = readSafetensors(content, size, o); err != nil {
		err = fmt.Errorf("%s: %w", weightsFileName, err)
	}
	if _, rest := io.Copy(io.Discard, content); rest != nil {
		return nil, "", errors.Join(err, rest)
	}
	return tensors, hex.EncodeToString(content.sum.Sum(nil)), err
}

// hashingReader hashes the bytes that it reads. In a large read, a goroutine hashes one piece while
// the reader reads the next.
type hashingReader struct {
	r   io.Reader
	sum hash.Hash
}

func (h *hashingReader) Read(p []byte) (n int, err error) {
	const piece = 1 << 20
	var hashing sync.WaitGroup
	for n < len(p) && err == nil {
		var k int
		k, err = h.r.Read(p[n:min(n+piece, len(p))])
		hashing.Wait()
		part := p[n : n+k]
		hashing.Go(func() { h.sum.Write(part) })
		n += k
	}
	hashing.Wait()
	return n, err
}

func loadCheckpoint(fsys fs.FS, name string, packed *packing) (*Bundle, error) {
	m, tensors, hash, err := readCheckpoint(fsys, name)
	if err != nil {
		return nil, err
	}
	return build(m, tensors, hash, false, packed)
}

func readCheckpoint(fsys fs.FS, name string) (m Manifest, tensors map[string]Tensor, hash string, err error) {
	m = Manifest{Name: name, LayerNormEps: 1e-5}
	text, err := safefile.ReadFile(fsys, CheckpointFileName, maxHeaderBytes)
	if err != nil {
		return m, nil, "", err
	}
	var initKwargs []byte
	if _, err := fs.Stat(fsys, initFileName); !errors.Is(err, fs.ErrNotExist) {
		if initKwargs, err = safefile.ReadFile(fsys, initFileName, maxHeaderBytes); err != nil {
			return m, nil, "", err
		}
	}
	l, err := parseCheckpoint(text, initKwargs)
	if err != nil {
		return m, nil, "", err
	}
	m.Architecture = l.Architecture
	file, hash, err := loadTensors(fsys, reading{skip: l.skips})
	if err != nil {
		return m, nil, hash, err
	}
	if tensors, err = l.convert(file); err != nil {
		err = inFile(weightsFileName, err)
	}
	return m, tensors, hash, err
}

// New makes a bundle in memory. tensors are those of m.Architecture.Tensors, and cov_b.
func New(m Manifest, tensors map[string]Tensor) (*Bundle, error) {
	hash, err := check(m, tensors)
	if err != nil {
		return nil, fmt.Errorf("tflite: %w", err)
	}
	b, err := build(m, maps.Clone(tensors), hash, true, &packing{})
	if err != nil {
		return nil, fmt.Errorf("tflite: %w", err)
	}
	return b, nil
}

// check returns the hash of the tensors, or an error if a bundle with this manifest cannot have
// them. It packs no weights.
func check(m Manifest, tensors map[string]Tensor) (hash string, err error) {
	sum := sha256.New()
	if err := writeSafetensors(sum, tensors); err != nil {
		return "", err
	}
	if err := m.Validate(); err != nil {
		return "", err
	}
	if err := checkTensors(m.Architecture, tensors, true); err != nil {
		return "", fmt.Errorf("%s: %w", weightsFileName, err)
	}
	var w weights
	a := m.Architecture
	if err := errors.Join(w.setNormaliser(a, tensors), w.setCovariance(a, tensors)); err != nil {
		return "", fmt.Errorf("%s: %w", weightsFileName, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// build makes a bundle. It deletes packed weights from the map.
func build(
	m Manifest, tensors map[string]Tensor, hash string, needCov bool, packed *packing,
) (*Bundle, error) {
	if err := checkTensors(m.Architecture, tensors, needCov); err != nil {
		return nil, fmt.Errorf("%s: %w", weightsFileName, err)
	}
	if packed.begins != nil {
		packed.begins()
	}
	b := &Bundle{Manifest: m, Hash: hash}
	for _, t := range tensors {
		b.Bytes += 2 * t.count()
		if t.F16 == nil {
			b.Bytes += 2 * t.count()
		} else {
			b.Float16 = true
		}
	}
	var err error
	if b.weights, err = newWeights(m, tensors, packed); err != nil {
		return nil, fmt.Errorf("%s: %w", weightsFileName, err)
	}
	packed.small = tensors
	return b, nil
}

// Dims returns the sizes of the model.
func (b *Bundle) Dims() Dims { return b.Architecture.dims() }

// HasCovariance reports whether φ can be computed.
func (b *Bundle) HasCovariance() bool { return b.weights.cov != nil }

// maxWeightsBytes limits a weights file. The checkpoint of BFM-Zero has 1.8 GB.
const maxWeightsBytes = 4 << 30

func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
