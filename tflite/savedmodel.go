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

	"optibfm/internal/safefile"
)

const (
	savedFormatName = "optibfm-savedmodel"
	savedFolder     = "saved_model" // in the bundle
	// SavedModelFileName identifies the folder of a SavedModel.
	SavedModelFileName = "saved_model.pb"

	maxSavedFiles = 4096
)

// ErrSavedModel is LoadDir's error for a bundle of a SavedModel.
var ErrSavedModel = errors.New("the bundle is a SavedModel, which only TensorFlow evaluates; " +
	"use a bundle with model.safetensors")

// Signatures are the names of a SavedModel's signatures.
type Signatures struct {
	Phi    string `json:"phi"`
	Policy string `json:"policy"`
	Psi    string `json:"psi"`
}

// DefaultSignatures returns the default names.
func DefaultSignatures() Signatures { return Signatures{Phi: "phi", Policy: "policy", Psi: "psi"} }

// SavedModel is a model of any architecture that TensorFlow evaluates. This package
// reads its description and verifies its files; package tensorflow evaluates it.
type SavedModel struct {
	Dir         string            // of the SavedModel
	Hash        string            // of its files, see FORMAT.md
	Name        string            // of the model, for people
	Signatures  Signatures        // of its functions
	Sizes       Dims              // zero until TensorFlow has loaded it once
	NormZ       bool              // its functions take √d·z/‖z‖; otherwise z
	Gamma       float64           // discount of the successor features; 0: unknown
	Observation []Channel         // one for each element, or none if unknown
	Action      []Channel         // one for each element, or none if unknown
	Provenance  map[string]string // origin of the model: free text
	Prior       *Prior            // of the tasks; nil: none
}

// Dims returns the sizes of the model.
func (m *SavedModel) Dims() Dims { return m.Sizes }

// Validate returns an error for the first invalid value.
func (m *SavedModel) Validate() error {
	for _, c := range []struct {
		name        string
		value, high int
	}{
		{"obs", m.Sizes.Obs, maxWidth}, {"action", m.Sizes.Action, maxWidth},
		{"latent", m.Sizes.Latent, maxWidth}, {"ensemble", m.Sizes.Ensemble, maxLayers},
	} {
		if c.value < 1 || c.value > c.high {
			return fmt.Errorf("dimensions: %s is %d, want 1 to %d", c.name, c.value, c.high)
		}
	}
	if s := m.Signatures; s.Phi == "" || s.Policy == "" || s.Psi == "" {
		return errors.New("savedmodel: signatures: a name is empty; name the signatures phi, policy and psi")
	}
	return checkDescription(m.Name, m.Gamma, m.Observation, m.Action, m.Sizes)
}

// LoadSavedModel reads the bundle of a SavedModel in a directory and verifies the hash of
// the SavedModel's files.
func LoadSavedModel(dir string) (*SavedModel, error) {
	m, err := loadSavedModel(dir)
	if err != nil {
		return nil, fmt.Errorf("tflite: %s: %w", dir, err)
	}
	return m, nil
}

func loadSavedModel(dir string) (*SavedModel, error) {
	text, err := safefile.ReadFile(safefile.Dir(dir), manifestFileName, maxHeaderBytes)
	if err != nil {
		return nil, err
	}
	m, folder, err := parseSavedManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFileName, err)
	}
	m.Dir = filepath.Join(dir, folder)
	if err := m.Verify(); err != nil {
		return nil, err
	}
	return m, m.Prior.read(safefile.Dir(dir), m.Sizes.Obs, m.Sizes.Latent)
}

// Verify compares the files in m.Dir with m.Hash. A program that lets a library read the
// files verifies them again afterwards: they may have changed in between.
func (m *SavedModel) Verify() error {
	hash, err := HashSavedModel(m.Dir)
	if err != nil {
		return err
	}
	if hash != m.Hash {
		return fmt.Errorf("%s: sha256 of its files is %s, want %s: a file is damaged, changed, missing or too many; "+
			"copy the bundle again, or import the SavedModel again", filepath.Base(m.Dir), hash, m.Hash)
	}
	return nil
}

// SaveSavedModel writes the bundle of a SavedModel, m.Dir, with a copy of its files, to a
// new or empty directory and returns it as LoadSavedModel does. It writes the whole
// directory or nothing, and no prior (see SavePrior). m.Hash, if it is not empty, is the hash of
// the files that TensorFlow has loaded: SaveSavedModel returns an error if the copy's hash differs.
func SaveSavedModel(dir string, m SavedModel) (*SavedModel, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("tflite: %w", err)
	}
	m.Prior = nil
	err := writeDir(dir, func(temporary string) error {
		into := filepath.Join(temporary, savedFolder)
		if err := copySavedModel(into, m.Dir); err != nil {
			return err
		}
		loaded := m.Hash
		var err error
		if m.Hash, err = HashSavedModel(into); err != nil {
			return err
		}
		if loaded != "" && loaded != m.Hash {
			return fmt.Errorf("%s changed during the import; import it again", m.Dir)
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

// walkSavedModel visits the files of a SavedModel by their paths with slashes, in the
// order of the paths' bytes.
func walkSavedModel(dir string, visit func(name string) error) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: not a folder; use the folder of the SavedModel itself, not a link", dir)
	}
	files := os.DirFS(dir)
	if _, err := fs.Stat(files, SavedModelFileName); err != nil {
		return fmt.Errorf("%s: %s is missing (%w); use the folder that tf.saved_model.save wrote",
			dir, SavedModelFileName, err)
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
			return fmt.Errorf("%s is not a regular file (%v); copy the SavedModel and follow links (cp -rL)",
				name, info.Mode().Type())
		}
		size += info.Size()
		names = append(names, name)
		if size > maxWeightsBytes || len(names) > maxSavedFiles {
			return fmt.Errorf("more than %d bytes or %d files: not a SavedModel, or a damaged one",
				int64(maxWeightsBytes), maxSavedFiles)
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

// HashSavedModel returns the sha256 of the lines that `sha256sum` prints for the files of
// a SavedModel, in the order of their paths' bytes.
func HashSavedModel(dir string) (string, error) {
	all := sha256.New()
	err := walkSavedModel(dir, func(name string) error {
		f, size, err := safefile.Open(filepath.Join(dir, filepath.FromSlash(name)))
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
	return walkSavedModel(from, func(name string) error {
		content, size, err := safefile.Open(filepath.Join(from, filepath.FromSlash(name)))
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

// savedManifestFile has the keys of bfm.json in their order.
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
	Prior       *priorFile        `json:"prior,omitempty"`
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
		Observation: orEmpty(m.Observation), Action: orEmpty(m.Action),
		Prior: m.Prior.file(), Provenance: orNone(m.Provenance),
	}, "", "  ")
	return append(text, '\n'), err
}

// parseSavedManifest parses bfm.json and returns it with the name of the folder.
func parseSavedManifest(raw []byte) (*SavedModel, string, error) {
	m := new(SavedModel)
	d := &m.Sizes
	var format, folder string
	var version int
	err := decodeObject(raw, fields{
		"format": &format, "version": &version, "name": &m.Name,
		"savedmodel": fields{
			"path": &folder, "sha256": &m.Hash,
			"signatures": fields{"phi": &m.Signatures.Phi, "policy": &m.Signatures.Policy, "psi": &m.Signatures.Psi},
		},
		"dimensions": fields{"obs": &d.Obs, "action": &d.Action, "latent": &d.Latent, "ensemble": &d.Ensemble},
		"norm_z":     &m.NormZ, "gamma": &m.Gamma,
		"observation": func(raw json.RawMessage) error { return parseChannels(raw, &m.Observation) },
		"action":      func(raw json.RawMessage) error { return parseChannels(raw, &m.Action) },
		"prior?":      optionalPrior(&m.Prior),
		"provenance":  func(raw json.RawMessage) error { return parseProvenance(raw, &m.Provenance) },
	})
	if err != nil {
		return nil, "", err
	}
	if err := checkFormat(format, version, savedFormatName); err != nil {
		return nil, "", err
	}
	// The path must not leave the bundle.
	if !fs.ValidPath(folder) || folder == "." || strings.ContainsAny(folder, `/\`) {
		return nil, "", fmt.Errorf("savedmodel: path is %q, want the name of a folder in the bundle", folder)
	}
	return m, folder, m.Validate()
}

// formatOf returns the value of a manifest's key format, "" without one.
func formatOf(raw []byte) string {
	var format string
	_ = eachKey(raw, func(key string, value json.RawMessage) error { // the full parser reports errors
		if key == "format" {
			return json.Unmarshal(value, &format)
		}
		return nil
	})
	return format
}
