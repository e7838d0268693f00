package shell

import (
	"os"
	"path/filepath"
	"regexp"
)

// Name returns the file name of this program.
func Name() string {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return filepath.Base(path)
}

// advised are the commands that texts advise: the commands of the program optibfm.
var advised = regexp.MustCompile(`(^|[^\w/.-])optibfm (arm|config|console|disarm|doctor|halt|infer|jitter|label|log|` +
	`model|new-robot|replay|reset|run|sense|status|stop|task|version)\b`)

// Renamed returns a text whose commands begin with this invocation: programs of other names have
// the same commands.
func (i Invocation) Renamed(text string) string {
	if i.Program == "" {
		return text
	}
	return advised.ReplaceAllStringFunc(text, func(found string) string {
		m := advised.FindStringSubmatch(found)
		return m[1] + i.Program + " " + m[2]
	})
}
