//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
)

// session is a graph in TensorFlow and a session that runs it.
type session struct {
	api            *api
	graph, session handle
	status         handle // of the last run
}

// newSession makes an empty graph and a session on the device.
func newSession(a *api, c Config) (*session, error) {
	return openSession(a, c, func(graph, options, status handle) handle { return a.newSession(graph, options, status) })
}

func openSession(a *api, c Config, open func(graph, options, status handle) handle) (*session, error) {
	s := &session{api: a, graph: a.newGraph(), status: a.newStatus()}
	options := a.newOptions()
	defer a.deleteOptions(options)
	config := c.Proto()
	err := a.withStatus(func(status handle) { a.setConfig(options, &config[0], uint64(len(config)), status) })
	if err == nil {
		err = a.withStatus(func(status handle) { s.session = open(s.graph, options, status) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tensorflow: create a session: %w", err), s.close())
	}
	return s, nil
}

// devices lists the session's devices.
func (s *session) devices() ([]Device, error) {
	a := s.api
	var list handle
	if err := a.withStatus(func(status handle) { list = a.listDevices(s.session, status) }); err != nil {
		return nil, fmt.Errorf("tensorflow: list the devices: %w", err)
	}
	defer a.deleteDevices(list)
	devices := make([]Device, a.deviceCount(list))
	for i := range devices {
		err := a.withStatus(func(status handle) {
			devices[i].Name = a.deviceName(list, int32(i), status)
			devices[i].Type = a.deviceType(list, int32(i), status)
			devices[i].Memory = a.deviceMemory(list, int32(i), status)
		})
		if err != nil {
			return nil, fmt.Errorf("tensorflow: device %d: %w", i, err)
		}
		if at := strings.LastIndex(devices[i].Name, "/device:"); at >= 0 {
			devices[i].Name = devices[i].Name[at:]
		}
	}
	return devices, nil
}

// load adds nodes to a graph. Nodes without a device get the given one.
func (a *api) load(graph handle, graphDef []byte, device string) error {
	buffer, options := a.newBuffer(&graphDef[0], uint64(len(graphDef))), a.newImport()
	defer a.deleteBuffer(buffer)
	defer a.deleteImport(options)
	a.importDevice(options, device)
	if err := a.withStatus(func(status handle) { a.importGraph(graph, buffer, options, status) }); err != nil {
		return fmt.Errorf("tensorflow: import the graph: %w", err)
	}
	return nil
}

// edges finds tensors of a graph by their names, OPERATION or OPERATION:OUTPUT.
func (a *api) edges(graph handle, names ...string) ([]edge, error) {
	edges := make([]edge, len(names))
	for i, name := range names {
		operation, output, _ := strings.Cut(name, ":")
		if n, err := strconv.ParseInt(output, 10, 32); err == nil {
			edges[i].index = int32(n)
		}
		edges[i].operation = a.operation(graph, operation)
		if edges[i].operation == 0 {
			return nil, fmt.Errorf("tensorflow: the graph has no operation %q", name)
		}
	}
	return edges, nil
}

// assign copies the values to the variables of the graph, and then drops the values.
func (s *session) assign(variables []variable) error {
	a, r := s.api, newRun(nil, nil)
	defer func() {
		for _, value := range r.values { // the variables hold references to the tensors
			new(caller).call(a.deleteTensor, value)
		}
		debug.FreeOSMemory()
	}()
	const enough = 64 << 20
	for unused, i := 0, 0; i < len(variables); i++ {
		v := &variables[i]
		found, err := a.edges(s.graph, string(v.feed), string(v.assign))
		if err != nil {
			return err
		}
		value, err := a.newTensor(v.dims...)
		if err != nil {
			return err
		}
		copy(value.f32, v.values)
		r.feeds, r.values = append(r.feeds, found[0]), append(r.values, value.handle)
		r.targets = append(r.targets, found[1].operation)
		unused += 4 * len(v.values)
		if v.values = nil; unused > enough {
			debug.FreeOSMemory()
			unused = 0
		}
	}
	if len(r.feeds) > 0 && !r.execute(a, s.session, s.status) {
		return fmt.Errorf("tensorflow: assign the weights: %s", a.message(s.status))
	}
	return nil
}

func (s *session) close() error {
	a := s.api
	var err error
	if s.session != 0 {
		err = errors.Join(
			a.withStatus(func(status handle) { a.closeSession(s.session, status) }),
			a.withStatus(func(status handle) { a.deleteSession(s.session, status) }))
	}
	if s.graph != 0 {
		a.deleteGraph(s.graph)
		a.deleteStatus(s.status)
	}
	s.session, s.graph, s.status = 0, 0, 0
	return err
}
