package theory

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"optibfm/internal/safefile"
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
		if err := safefile.Replace(filepath.Join(dir, name), 0o644, write); err != nil {
			return fmt.Errorf("theory: %w", err)
		}
	}
	return nil
}
