package dds

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/ebitengine/purego"
)

// Environment is the variable with the file or folder of libddsc, after the configuration and
// before the loader.
const Environment = "OPTIBFM_LIBDDSC"

// The errors of Open wrap these.
var (
	ErrNoLibrary = errors.New("libddsc of Cyclone DDS was not found")
	ErrVersion   = errors.New("unsupported version of Cyclone DDS")
)

const advice = "install libddsc of Cyclone DDS 0.10 (Debian 12: apt install libddsc0debian; docs/unitree.md)"

// fileNames are those of libddsc 0.10: Debian's, upstream's, and that of a development package.
var fileNames = []string{"libddsc.so.0debian", "libddsc.so.0", "libddsc.so"}

// Library is libddsc in this process. It is loaded once and never unloaded.
type Library struct {
	Path    string // of the loaded file
	Version string // such as 0.10.2
	call    functions
	pinner  runtime.Pinner // of what the library keeps: a few texts and descriptors for each participant
}

// functions are the addresses of the used part of dds/dds.h.
type functions struct {
	createDomain, createParticipant, createTopic, createWriter, createReader, delete uintptr
	createQos, deleteQos, setReliability, setHistory                                 uintptr
	write, take, returnLoan                                                          uintptr
	matchedPublications, matchedSubscriptions, publicationData, freeEndpoint         uintptr
	guid, message                                                                    uintptr
}

func (f *functions) names() map[string]*uintptr {
	return map[string]*uintptr{
		"dds_create_domain": &f.createDomain, "dds_create_participant": &f.createParticipant,
		"dds_create_topic": &f.createTopic, "dds_create_writer": &f.createWriter,
		"dds_create_reader": &f.createReader, "dds_delete": &f.delete,
		"dds_create_qos": &f.createQos, "dds_delete_qos": &f.deleteQos,
		"dds_qset_reliability": &f.setReliability, "dds_qset_history": &f.setHistory,
		"dds_write": &f.write, "dds_take": &f.take, "dds_return_loan": &f.returnLoan,
		"dds_get_matched_publications":     &f.matchedPublications,
		"dds_get_matched_subscriptions":    &f.matchedSubscriptions,
		"dds_get_matched_publication_data": &f.publicationData,
		"dds_builtintopic_free_endpoint":   &f.freeEndpoint,
		"dds_get_guid":                     &f.guid, "dds_strretcode": &f.message,
	}
}

var loaded struct {
	sync.Mutex
	*Library
}

// Open loads libddsc: the configured file or folder, that of [Environment], or what the system's
// loader finds.
func Open(configured string) (*Library, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.Library != nil {
		return loaded.Library, nil
	}
	l, err := open(configured)
	if err != nil {
		return nil, fmt.Errorf("dds: %w", err)
	}
	loaded.Library = l
	return l, nil
}

func open(configured string) (*Library, error) {
	handle, err := load(candidates(configured))
	if err != nil {
		return nil, err
	}
	l := new(Library)
	if l.Path, err = mapped(); err != nil {
		return nil, err
	}
	if l.Version, err = versionOf(l.Path); err != nil {
		return nil, err
	}
	if _, err := purego.Dlsym(handle, "dds_peek"); err == nil { // new in 11, whatever the name of the file
		return nil, fmt.Errorf("%w: %s has functions of version 11; %s", ErrVersion, l.Path, advice)
	}
	for name, address := range l.call.names() {
		if *address, err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("%w: %s has no function %s; %s", ErrVersion, l.Path, name, advice)
		}
	}
	return l, nil
}

func candidates(configured string) []string {
	place := configured
	place = cmp.Or(place, os.Getenv(Environment))
	if place == "" {
		return fileNames
	}
	if info, err := os.Stat(place); err != nil || !info.IsDir() {
		return []string{place}
	}
	var files []string
	for _, name := range fileNames {
		files = append(files, filepath.Join(place, name))
	}
	return files
}

func load(files []string) (handle uintptr, err error) {
	var tried []string
	for _, file := range files {
		// A version that is refused must not be loaded: its threads would stay.
		if real, err := filepath.EvalSymlinks(file); err == nil {
			if _, err := versionOf(real); err != nil {
				return 0, err
			}
		}
		handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return handle, nil
		}
		tried = append(tried, err.Error())
	}
	return 0, fmt.Errorf("%w (%s); %s", ErrNoLibrary, strings.Join(tried, "; "), advice)
}

// versionPattern finds the version in the real name of the file: libddsc.so.0.10.2,
// libddsc-1a2b3c4d.so.0.10.5.
var versionPattern = regexp.MustCompile(`\.so\.([0-9]+\.[0-9]+(\.[0-9]+)*)$`)

// versionOf returns the version in the name of a library's file. The library has no function that
// returns it.
func versionOf(path string) (string, error) {
	found := versionPattern.FindStringSubmatch(path)
	switch {
	case found == nil:
		return "", fmt.Errorf("%w: the name of %s has no version; name the file libddsc.so.0.10.2 itself, or %s",
			ErrVersion, path, advice)
	case !strings.HasPrefix(found[1], "0.10."):
		return "", fmt.Errorf("%w: %s is %s, the robot has 0.10.2, which crashes beside version 11; %s",
			ErrVersion, path, found[1], advice)
	}
	return found[1], nil
}

// mapped returns the real path of the library in the memory of this process.
func mapped() (string, error) {
	file, err := os.Open("/proc/self/maps")
	if err != nil {
		return "", err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if at := strings.IndexByte(line, '/'); at >= 0 && strings.HasPrefix(filepath.Base(line[at:]), "libddsc") {
			return line[at:], nil
		}
	}
	return "", fmt.Errorf("%w: the loaded library is not in /proc/self/maps", ErrNoLibrary)
}
