package theory

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteFiles writes theory.csv and theory_curves.csv to a folder, which it makes if
// necessary.
func (r Report) WriteFiles(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("theory: %w", err)
	}
	for name, write := range map[string]func(io.Writer) error{
		"theory.csv": r.WriteClaims, "theory_curves.csv": r.WriteCurves,
	} {
		if err := writeFile(filepath.Join(dir, name), write); err != nil {
			return fmt.Errorf("theory: %w", err)
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	return errors.Join(write(buffered), buffered.Flush(), file.Close())
}
