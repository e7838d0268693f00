package tflite

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"optibfm/internal/errtest"

	"optibfm/internal/fatal"
)

// The files of these tests are not a real SavedModel: only TensorFlow reads them.

func savedModel(t *testing.T) SavedModel {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "exported")
	for name, text := range map[string]string{
		"saved_model.pb": "graph", "variables/variables.index": "index", "variables.data": "numbers",
	} {
		put(t, filepath.Join(dir, name), text)
	}
	return SavedModel{
		Dir: dir, Name: "mine", Signatures: DefaultSignatures(),
		Sizes: Dims{Obs: 2, Action: 1, Latent: 3, Ensemble: 2}, NormZ: true, Gamma: 0.9,
		Observation: []Channel{{"x", "m"}, {"v", ""}}, Provenance: map[string]string{"from": "a test"},
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	fatal.If(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

// savedBundle writes the bundle of savedModel.
func savedBundle(t *testing.T) (dir string, m *SavedModel) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "bundle")
	m, err := SaveSavedModel(dir, savedModel(t))
	fatal.If(t, err)
	return dir, m
}

func TestSaveSavedModel_LoadReturnsTheSame(t *testing.T) {
	dir, m := savedBundle(t)
	want := savedModel(t)
	want.Dir, want.Hash = filepath.Join(dir, "saved_model"), m.Hash
	want.Action = nil
	if !reflect.DeepEqual(*m, want) {
		t.Errorf("%+v\nwant %+v", *m, want)
	}
	text, err := os.ReadFile(filepath.Join(m.Dir, "variables", "variables.index"))
	if err != nil || string(text) != "index" {
		t.Errorf("the copy has %q, %v", text, err)
	}
}

func TestHashSavedModel_IsTheHashOfSha256sumLines(t *testing.T) {
	_, m := savedBundle(t)
	var lines strings.Builder
	for _, file := range [][2]string{
		{"saved_model.pb", "graph"}, {"variables.data", "numbers"}, {"variables/variables.index", "index"},
	} {
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256([]byte(file[1])), file[0])
	}
	sum := sha256.Sum256([]byte(lines.String()))
	if want := hex.EncodeToString(sum[:]); m.Hash != want {
		t.Errorf("%s, want %s", m.Hash, want)
	}
}

func TestLoadDir_OfSavedModelIsErrSavedModel(t *testing.T) {
	dir, m := savedBundle(t)
	errtest.Is(t, errtest.Of(LoadDir(dir)), ErrSavedModel)
	errtest.Contains(t, errtest.Of(LoadDir(m.Dir)), "model import")
}

// damage changes the files of a bundle.
type damage func(t *testing.T, dir string)

// replace replaces a text in bfm.json.
func replace(from, to string) damage {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, "bfm.json")
		text, err := os.ReadFile(path)
		fatal.If(t, err)
		if !strings.Contains(string(text), from) {
			t.Fatalf("no %s in %s", from, text)
		}
		put(t, path, strings.Replace(string(text), from, to, 1))
	}
}

func remove(name string) damage {
	return func(t *testing.T, dir string) { fatal.If(t, os.Remove(filepath.Join(dir, name))) }
}

func write(name, text string) damage {
	return func(t *testing.T, dir string) { put(t, filepath.Join(dir, name), text) }
}

// addLink adds a link to the files of the SavedModel.
func addLink(t *testing.T, dir string) {
	fatal.If(t, os.Symlink("/etc/hostname", filepath.Join(dir, "saved_model/x")))
}

// linkFolder replaces the folder of the SavedModel by a link to it.
func linkFolder(t *testing.T, dir string) {
	folder := filepath.Join(dir, "saved_model")
	fatal.If(t, errors.Join(os.Rename(folder, folder+"2"), os.Symlink(folder+"2", folder)))
}

func TestLoadSavedModel_RejectsDamage(t *testing.T) {
	path := func(to string) damage { return replace(`"path": "saved_model"`, `"path": "`+to+`"`) }
	cases := map[string]struct {
		damage damage
		want   string
	}{
		"no bfm.json":        {remove("bfm.json"), "bfm.json"},
		"no saved_model.pb":  {remove("saved_model/saved_model.pb"), "saved_model.pb is missing"},
		"missing file":       {remove("saved_model/variables/variables.index"), "sha256 of its files"},
		"changed file":       {write("saved_model/variables.data", "Numbers"), "sha256 of its files"},
		"additional file":    {write("saved_model/assets/x", ""), "sha256 of its files"},
		"link":               {addLink, "not a regular file"},
		"link to the folder": {linkFolder, "not a link"},
		"absolute path":      {path("/tmp"), "want the name of a folder"},
		"path leaves bundle": {path("../exported"), "want the name of a folder"},
		"parent directory":   {path(".."), "want the name of a folder"},
		"bundle itself":      {path("."), "want the name of a folder"},
		"empty path":         {path(""), "want the name of a folder"},
		"missing folder":     {path("other"), "other"},
		"other hash":         {replace(`"sha256": "`, `"sha256": "0`), "sha256 of its files"},
		"other version":      {replace(`"version": 2`, `"version": 3`), "version 3"},
		"other format":       {replace(`optibfm-savedmodel`, `optibfm-saved`), "format"},
		"unknown key":        {replace(`"norm_z"`, `"norm_y"`), "norm_y"},
		"zero size":          {replace(`"obs": 2`, `"obs": 0`), "obs is 0"},
		"huge size":          {replace(`"ensemble": 2`, `"ensemble": 200`), "ensemble is 200"},
		"empty signature":    {replace(`"psi": "psi"`, `"psi": ""`), "name the signatures"},
		"too few channels":   {replace(`"obs": 2`, `"obs": 3`), "observation names 2 channels"},
		"not JSON":           {replace(`{`, ``), "JSON"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir, _ := savedBundle(t)
			c.damage(t, dir)
			_, err := LoadSavedModel(dir)
			errtest.Contains(t, err, c.want, name)
			errtest.Contains(t, err, dir, name)
		})
	}
}

func TestSaveSavedModel_RejectsInvalidModels(t *testing.T) {
	for name, spoil := range map[string]func(*SavedModel){
		"zero sizes":       func(m *SavedModel) { m.Sizes = Dims{} },
		"no name":          func(m *SavedModel) { m.Name = "" },
		"gamma of 1":       func(m *SavedModel) { m.Gamma = 1 },
		"other files":      func(m *SavedModel) { m.Hash = strings.Repeat("0", 64) },
		"no folder":        func(m *SavedModel) { m.Dir += "2" },
		"no saved_model":   func(m *SavedModel) { m.Dir = filepath.Join(m.Dir, "variables") },
		"too few channels": func(m *SavedModel) { m.Action = []Channel{{"a", ""}, {"b", ""}} },
	} {
		t.Run(name, func(t *testing.T) {
			m := savedModel(t)
			spoil(&m)
			parent := t.TempDir()
			errtest.NotNil(t, errtest.Of(SaveSavedModel(filepath.Join(parent, "bundle"), m)))
			if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func FuzzSavedManifestNeverPanics(f *testing.F) {
	m := SavedModel{Name: "x", Signatures: DefaultSignatures(), Sizes: Dims{1, 1, 1, 1}}
	text, err := encodeSavedManifest(m, "saved_model")
	fatal.If(f, err)
	f.Add(text)
	f.Add([]byte(`{"format":"optibfm-savedmodel","savedmodel":{"path":"../x","signatures":null}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, folder, err := parseSavedManifest(raw)
		if err == nil && (m.Validate() != nil || !filepath.IsLocal(folder) || filepath.Base(folder) != folder) {
			t.Errorf("an invalid manifest passed, with %q", folder)
		}
	})
}
