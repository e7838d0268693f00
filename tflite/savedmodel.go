package tflite

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"optibfm/internal/regular"
)

const (
	savedFormatName = "optibfm-savedmodel"
	savedFolder     = "saved_model" // where Import puts it in the bundle
	// SavedModelFileName is what the folder of a SavedModel is known by.
	SavedModelFileName = "saved_model.pb"

	maxSavedFiles = 4096
)

// ErrSavedModel is returned by LoadDir for a bundle of a SavedModel, which this
// package reads with LoadSavedModel and evaluates nowhere.
var ErrSavedModel = errors.New("tflite: the bundle is a SavedModel, which only TensorFlow evaluates: give a bundle with model.safetensors here")

// Signatures are the names of a SavedModel's signatures.
type Signatures struct {
	Phi    string `json:"phi"`
	Policy string `json:"policy"`
	Psi    string `json:"psi"`
}

// DefaultSignatures are the names that they have by default.
func DefaultSignatures() Signatures { return Signatures{Phi: "phi", Policy: "policy", Psi: "psi"} }

// SavedModel is a model that TensorFlow evaluates, of any architecture. This
// package knows what its bundle says of it and that its files are those of the
// bundle; package tensorflow evaluates it.
type SavedModel struct {
	Dir         string            // of the SavedModel
	Hash        string            // of its files, see FORMAT.md
	Name        string            // of the model, for people
	Signatures  Signatures        // of its functions
	Sizes       Dims              // zero before it was loaded by TensorFlow once
	NormZ       bool              // its functions are to get √d·z/‖z‖; otherwise z as it is
	Gamma       float64           // discount of the successor features; 0: not known
	Observation []Channel         // one an element, or none where they are not known
	Action      []Channel         // one an element, or none where they are not known
	Provenance  map[string]string // where the model comes from: free text
}

// Dims returns the sizes of the model.
func (m *SavedModel) Dims() Dims { return m.Sizes }

// Validate reports the first thing that a bundle cannot say of a SavedModel.
func (m *SavedModel) Validate() error {
	for _, c := range []struct {
		name        string
		value, high int
	}{
		{"obs", m.Sizes.Obs, maxWidth}, {"action", m.Sizes.Action, maxWidth}, {"latent", m.Sizes.Latent, maxWidth}, {"ensemble", m.Sizes.Ensemble, maxLayers},
	} {
		if c.value < 1 || c.value > c.high {
			return fmt.Errorf("dimensions: %s is %d, want 1 to %d", c.name, c.value, c.high)
		}
	}
	if s := m.Signatures; s.Phi == "" || s.Policy == "" || s.Psi == "" {
		return errors.New("savedmodel: signatures: a name is empty: name the signatures phi, policy and psi")
	}
	return checkDescription(m.Name, m.Gamma, m.Observation, m.Action, m.Sizes)
}

// LoadSavedModel reads the bundle of a SavedModel in a directory and verifies
// that the SavedModel's files are the bundle's. It does not evaluate anything.
func LoadSavedModel(dir string) (*SavedModel, error) {
	m, err := loadSavedModel(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

func loadSavedModel(dir string) (*SavedModel, error) {
	text, err := regular.ReadFile(regular.Dir(dir), manifestFileName, maxHeaderBytes)
	if err != nil {
		return nil, err
	}
	m, folder, err := parseSavedManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFileName, err)
	}
	m.Dir = filepath.Join(dir, folder)
	return m, m.Verify()
}

// Verify reads the files in m.Dir and reports whether they are others than
// m.Hash says. Who has them read by others does it once more when they are read:
// somebody may have changed them meanwhile.
func (m *SavedModel) Verify() error {
	hash, err := HashSavedModel(m.Dir)
	if err != nil {
		return err
	}
	if hash != m.Hash {
		return fmt.Errorf("%s: sha256 of its files is %s, want %s: a file is damaged, changed, missing or too many: copy the bundle again, or import the SavedModel again",
			filepath.Base(m.Dir), hash, m.Hash)
	}
	return nil
}

// SaveSavedModel writes the bundle of a SavedModel, m.Dir, as a new directory,
// with a copy of its files, and returns it as LoadSavedModel does. The directory
// appears whole or not at all; one that has files in it is left alone. m.Hash, if
// it is not empty, is that of the files that were loaded and tried: a copy that
// has another is refused. It is for a model that TensorFlow has loaded: `optibfm
// model import`.
func SaveSavedModel(dir string, m SavedModel) (*SavedModel, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("tflite: %w", err)
	}
	err := writeDir(dir, func(temporary string) error {
		into := filepath.Join(temporary, savedFolder)
		if err := copySavedModel(into, m.Dir); err != nil {
			return err
		}
		tried := m.Hash
		var err error
		if m.Hash, err = HashSavedModel(into); err != nil {
			return err
		}
		if tried != "" && tried != m.Hash {
			return fmt.Errorf("%s changed while it was imported: leave it alone meanwhile, and import it again", m.Dir)
		}
		text, err := encodeSavedManifest(m, savedFolder)
		if err != nil {
			return err
		}
		return writeSynced(filepath.Join(temporary, manifestFileName), bytes.NewReader(text))
	})
	if err != nil {
		return nil, err
	}
	return LoadSavedModel(dir)
}

// eachSavedFile visits the files of a SavedModel by their paths with slashes, in
// the order of the paths' bytes.
func eachSavedFile(dir string, visit func(name string) error) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: is no folder: give the folder of the SavedModel itself, not a link", dir)
	}
	files := os.DirFS(dir)
	if _, err := fs.Stat(files, SavedModelFileName); err != nil {
		return fmt.Errorf("%s: %s is missing (%w): give the folder that tf.saved_model.save wrote", dir, SavedModelFileName, err)
	}
	var names []string
	var size int64
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file (%v): a SavedModel has none such, copy it with links followed (cp -rL)", name, info.Mode().Type())
		}
		size += info.Size()
		names = append(names, name)
		if size > maxWeightsBytes || len(names) > maxSavedFiles {
			return fmt.Errorf("more than %d bytes or %d files: not a SavedModel, or a damaged one", int64(maxWeightsBytes), maxSavedFiles)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := visit(name); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// HashSavedModel is the sha256 of the lines that `sha256sum` prints of the files
// of a SavedModel, in the order of their paths' bytes.
func HashSavedModel(dir string) (string, error) {
	all := sha256.New()
	err := eachSavedFile(dir, func(name string) error {
		f, size, err := regular.Open(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		defer f.Close()
		one := sha256.New()
		if _, err := io.CopyN(one, f, size); err != nil {
			return err
		}
		_, err = fmt.Fprintf(all, "%x  %s\n", one.Sum(nil), name)
		return err
	})
	return hex.EncodeToString(all.Sum(nil)), err
}

func copySavedModel(into, from string) error {
	return eachSavedFile(from, func(name string) error {
		content, size, err := regular.Open(filepath.Join(from, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		defer content.Close()
		target := filepath.Join(into, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return writeSynced(target, io.LimitReader(content, size))
	})
}

// savedManifestFile is the text of bfm.json, in its order.
type savedManifestFile struct {
	Format      string            `json:"format"`
	Version     int               `json:"version"`
	Name        string            `json:"name"`
	SavedModel  savedLocation     `json:"savedmodel"`
	Dimensions  savedDimensions   `json:"dimensions"`
	NormZ       bool              `json:"norm_z"`
	Gamma       float64           `json:"gamma"`
	Observation []Channel         `json:"observation"`
	Action      []Channel         `json:"action"`
	Provenance  map[string]string `json:"provenance"`
}

type savedLocation struct {
	Path       string     `json:"path"`
	Signatures Signatures `json:"signatures"`
	SHA256     string     `json:"sha256"`
}

type savedDimensions struct {
	Obs      int `json:"obs"`
	Action   int `json:"action"`
	Latent   int `json:"latent"`
	Ensemble int `json:"ensemble"`
}

func encodeSavedManifest(m SavedModel, folder string) ([]byte, error) {
	text, err := json.MarshalIndent(savedManifestFile{
		Format: savedFormatName, Version: formatVersion, Name: m.Name,
		SavedModel: savedLocation{Path: folder, Signatures: m.Signatures, SHA256: m.Hash},
		Dimensions: savedDimensions(m.Sizes), NormZ: m.NormZ, Gamma: m.Gamma,
		Observation: orEmpty(m.Observation), Action: orEmpty(m.Action), Provenance: orNone(m.Provenance),
	}, "", "  ")
	return append(text, '\n'), err
}

// parseSavedManifest reads bfm.json and returns it with the name of the folder.
func parseSavedManifest(raw []byte) (*SavedModel, string, error) {
	m := new(SavedModel)
	var format, folder string
	var version int
	err := object(raw, fields{
		"format": &format, "version": &version, "name": &m.Name,
		"savedmodel": func(raw json.RawMessage) error {
			return object(raw, fields{"path": &folder, "sha256": &m.Hash, "signatures": func(raw json.RawMessage) error {
				return object(raw, fields{"phi": &m.Signatures.Phi, "policy": &m.Signatures.Policy, "psi": &m.Signatures.Psi})
			}})
		},
		"dimensions": func(raw json.RawMessage) error {
			return object(raw, fields{"obs": &m.Sizes.Obs, "action": &m.Sizes.Action, "latent": &m.Sizes.Latent, "ensemble": &m.Sizes.Ensemble})
		},
		"norm_z": &m.NormZ, "gamma": &m.Gamma,
		"observation": func(raw json.RawMessage) error { return parseChannels(raw, &m.Observation) },
		"action":      func(raw json.RawMessage) error { return parseChannels(raw, &m.Action) },
		"provenance":  func(raw json.RawMessage) error { return parseProvenance(raw, &m.Provenance) },
	})
	if err != nil {
		return nil, "", err
	}
	if format != savedFormatName || version != formatVersion {
		return nil, "", fmt.Errorf("format %q version %d, this program reads %q version %d", format, version, savedFormatName, formatVersion)
	}
	// The program leaves the bundle for nobody.
	if !fs.ValidPath(folder) || folder == "." || strings.ContainsAny(folder, `/\`) {
		return nil, "", fmt.Errorf("savedmodel: path is %q, want the name of a folder in the bundle: no / and no .. in it", folder)
	}
	return m, folder, m.Validate()
}

// formatOf returns the format that a manifest says it has, "" where it has none.
func formatOf(raw []byte) string {
	var format string
	_ = eachKey(raw, func(key string, value json.RawMessage) error { // what is malformed is told by who reads it
		if key == "format" {
			return json.Unmarshal(value, &format)
		}
		return nil
	})
	return format
}
