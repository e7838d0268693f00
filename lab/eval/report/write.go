package report

import (
	"fmt"
	"os"
	"path/filepath"
)

// Names of what Write makes in its folder.
const (
	PageName      = "index.html"
	EstimatesName = "estimates.csv"
	FiguresName   = "figures" // a folder
)

// Write makes the page, the figures as SVG and PNG and the estimates in a
// folder, which it makes too if it is not there. It returns the paths of what
// it wrote; files of those names are replaced, each whole or not at all, other
// files stay.
func (r *Report) Write(folder string) ([]string, error) {
	files, err := r.files()
	if err != nil {
		return nil, fmt.Errorf("eval report: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(folder, FiguresName), 0o755); err != nil {
		return nil, fmt.Errorf("eval report: %w", err)
	}
	var written []string
	for _, f := range files {
		path := filepath.Join(folder, f.name)
		if err := replace(path, f.content); err != nil {
			return written, fmt.Errorf("eval report: %w", err)
		}
		written = append(written, path)
	}
	return written, nil
}

// file is a file to be written, by its path in the folder.
type file struct {
	name    string
	content []byte
}

// files are all of them, the page last, so that it is only there with the rest.
func (r *Report) files() ([]file, error) {
	var files []file
	for i := range r.Figures {
		f := &r.Figures[i]
		if len(f.Panels) == 0 {
			continue
		}
		encoded, err := f.encoded()
		if err != nil {
			return nil, err
		}
		for _, ending := range []string{"svg", "png"} {
			files = append(files, file{filepath.Join(FiguresName, f.Name+"."+ending), encoded[ending]})
		}
	}
	estimates, err := r.Estimates()
	if err != nil {
		return nil, err
	}
	page, err := r.Page()
	if err != nil {
		return nil, err
	}
	return append(files, file{EstimatesName, estimates}, file{PageName, page}), nil
}

// replace writes a file beside its place and moves it there.
func replace(path string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".report-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // fails where it was moved
	_, err = temporary.Write(content)
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(temporary.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
