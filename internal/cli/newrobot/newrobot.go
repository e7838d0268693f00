// Package newrobot writes the folder of a new robot: `optibfm new-robot`.
//
// The template is examples/puck, a toy that runs unchanged and without the repository.
package newrobot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"optibfm/examples/puck"
	"optibfm/internal/shell"
)

var validName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// Write writes the folder name, which must not exist, and prints the next commands. On an error it
// leaves no folder.
func Write(w io.Writer, name string) (err error) {
	if err := writeFolder(name, func() error {
		return copyAll(name, puck.Files, strings.NewReplacer(puck.Folder, name, puck.Name, `"`+name+`"`))
	}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s: written; read %[1]s/README.md and start the toy in it with: %s\n",
		name, shell.ThisProgram().Command("run", "--config", name+"/robot.yaml"))
	return err
}

// writeFolder makes the folder name, which must not exist, and fills it. On an error it leaves no
// folder.
func writeFolder(name string, fill func() error) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("new-robot: bad name (%q); give 1 to 64 letters, digits, - and _, a letter first", name)
	}
	err := os.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("new-robot: %s: the folder exists; choose another name, or move it away", name)
	}
	if err != nil {
		return fmt.Errorf("new-robot: %w", err)
	}
	if err := fill(); err != nil {
		return fmt.Errorf("new-robot: %w", errors.Join(err, os.RemoveAll(name)))
	}
	return nil
}

// copyAll writes the files of a template with replaced names.
func copyAll(name string, files fs.FS, names *strings.Replacer) error {
	return fs.WalkDir(files, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		return write(name, file, text, names)
	})
}

// write writes a file of a template with replaced names.
func write(name, file string, text []byte, names *strings.Replacer) error {
	mode := fs.FileMode(0o644)
	switch path.Ext(file) {
	case ".sh":
		mode = 0o755
		fallthrough
	case ".md", ".py", ".yaml":
		text = []byte(names.Replace(string(text)))
	}
	path := filepath.Join(name, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, mode)
}
