package newrobot

import (
	"errors"
	"fmt"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"optibfm/examples"
)

// validPackage are the names that are also keys of a configuration.
var validPackage = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// modulePath is the module of optibfm.
const modulePath = "optibfm"

// WriteGo writes the folder name, which must not exist: a Go module with a robot, which uses the
// optibfm in the folder repository; "": the one around the current folder. It prints the next
// commands.
func WriteGo(w io.Writer, name, repository string) (err error) {
	if !validPackage.MatchString(name) {
		return fmt.Errorf("new-robot: bad name (%q); give 1 to 32 lower case letters, digits and _, a letter first", name)
	}
	files, err := goFiles(name)
	if err != nil {
		return err
	}
	repository, goMod, err := findRepository(repository)
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(repository, "go.sum"))
	if err != nil {
		return fmt.Errorf("new-robot: %w", err)
	}
	if err := os.Mkdir(name, 0o755); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("new-robot: %s: the folder exists; choose another name, or move it away", name)
	} else if err != nil {
		return fmt.Errorf("new-robot: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("new-robot: %w", errors.Join(err, os.RemoveAll(name)))
		}
	}()
	files["go.mod"], files["go.sum"] = moduleFile(goMod, name, repository), string(sums)
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(name, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	const done = "%[1]s: written; read %[1]s/main.go and start the robot with: cd %[1]s && go run . run\n"
	_, err = fmt.Fprintf(w, done, name)
	return err
}

// goFiles returns the files of the template with the name of the robot.
func goFiles(name string) (map[string]string, error) {
	files := map[string]string{}
	for from, to := range map[string]string{
		"main.go": "main.go", examples.RobotName + ".go": "robot.go", examples.RobotName + ".yaml": "robot.yaml",
	} {
		text, err := examples.Robot.ReadFile(path.Join("robot", from))
		if err != nil {
			return nil, err
		}
		used := regexp.MustCompile(`\b` + name + `\b`).Match(text)
		if name != examples.RobotName && (used || token.IsKeyword(name)) {
			return nil, fmt.Errorf("new-robot: %s is a word of the program that it would name; choose another name", name)
		}
		files[to] = strings.NewReplacer("./examples/robot", ".", examples.RobotName+".yaml", "robot.yaml",
			examples.RobotName, name).Replace(string(text))
	}
	return files, nil
}

// findRepository returns the absolute path of optibfm's repository and the text of its go.mod.
func findRepository(folder string) (root, goMod string, err error) {
	if root, err = filepath.Abs(folder); err != nil {
		return "", "", fmt.Errorf("new-robot: %w", err)
	}
	for dir := root; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+modulePath+"\n") {
			return dir, string(text), nil
		}
		if dir == filepath.Dir(dir) || folder != "" {
			return "", "", fmt.Errorf("new-robot: %s: not the repository of optibfm; run this command in it, or give "+
				"--repository", root)
		}
	}
}

// moduleFile returns the go.mod of a robot: the requirements of optibfm, and optibfm itself in a
// folder.
func moduleFile(goMod, name, repository string) string {
	_, rest, _ := strings.Cut(goMod, "\n")
	return fmt.Sprintf("module %s\n%s\nrequire %[3]s v0.0.0\n\nreplace %[3]s => %[4]s\n",
		name, rest, modulePath, repository)
}
