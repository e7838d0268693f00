//go:build tensorflow

package tensorflow

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// This file declares the used part of tensorflow/c/c_api.h. TensorFlow 2 keeps its
// binary interface. Each C object is a handle that its owner frees explicitly,
// without finalizers.

// handle is a pointer to a C object of TensorFlow; 0 is none.
type handle = uintptr

// edge is TF_Output: an output of an operation.
type edge struct {
	operation handle
	index     int32
	_         int32
}

// api holds the functions. A search calls those of the first line by address,
// without reflection.
type api struct {
	sessionRun, deleteTensor, tensorData, tensorSize, getCode handle

	version       func() string
	newStatus     func() handle
	deleteStatus  func(handle)
	message       func(handle) string
	newBuffer     func(data *byte, size uint64) handle
	deleteBuffer  func(handle)
	newGraph      func() handle
	deleteGraph   func(handle)
	newImport     func() handle
	importDevice  func(options handle, device string)
	deleteImport  func(handle)
	importGraph   func(graph, buffer, options, status handle)
	operation     func(graph handle, name string) handle
	newOptions    func() handle
	deleteOptions func(handle)
	setConfig     func(options handle, config *byte, size uint64, status handle)
	newSession    func(graph, options, status handle) handle
	loadSaved     func(options, runOptions handle, dir string, tags **byte, tagCount int32,
		graph, metaGraph, status handle) handle
	emptyBuffer   func() handle
	closeSession  func(session, status handle)
	deleteSession func(session, status handle)
	allocate      func(t int32, dims *int64, rank int32, size uint64) handle
	listDevices   func(session, status handle) handle
	deleteDevices func(handle)
	deviceCount   func(handle) int32
	deviceName    func(devices handle, i int32, status handle) string
	deviceType    func(devices handle, i int32, status handle) string
	deviceMemory  func(devices handle, i int32, status handle) int64
	kernels       func(op string, status handle) handle

	enableTF32 func(bool) // may be nil
}

func (a *api) functions() map[string]any {
	return map[string]any{
		"TF_SessionRun": &a.sessionRun, "TF_DeleteTensor": &a.deleteTensor,
		"TF_TensorData": &a.tensorData, "TF_TensorByteSize": &a.tensorSize, "TF_AllocateTensor": &a.allocate,
		"TF_Version": &a.version, "TF_GetRegisteredKernelsForOp": &a.kernels,
		"TF_NewStatus": &a.newStatus, "TF_DeleteStatus": &a.deleteStatus,
		"TF_Message": &a.message, "TF_GetCode": &a.getCode,
		"TF_NewBufferFromString": &a.newBuffer, "TF_NewBuffer": &a.emptyBuffer, "TF_DeleteBuffer": &a.deleteBuffer,
		"TF_NewGraph": &a.newGraph, "TF_DeleteGraph": &a.deleteGraph,
		"TF_NewImportGraphDefOptions":              &a.newImport,
		"TF_DeleteImportGraphDefOptions":           &a.deleteImport,
		"TF_ImportGraphDefOptionsSetDefaultDevice": &a.importDevice,
		"TF_GraphImportGraphDef":                   &a.importGraph,
		"TF_GraphOperationByName":                  &a.operation,
		"TF_NewSessionOptions":                     &a.newOptions,
		"TF_DeleteSessionOptions":                  &a.deleteOptions,
		"TF_SetConfig":                             &a.setConfig,
		"TF_NewSession":                            &a.newSession,
		"TF_LoadSessionFromSavedModel":             &a.loadSaved,
		"TF_CloseSession":                          &a.closeSession,
		"TF_DeleteSession":                         &a.deleteSession,
		"TF_SessionListDevices":                    &a.listDevices,
		"TF_DeleteDeviceList":                      &a.deleteDevices,
		"TF_DeviceListCount":                       &a.deviceCount,
		"TF_DeviceListName":                        &a.deviceName,
		"TF_DeviceListType":                        &a.deviceType,
		"TF_DeviceListMemoryBytes":                 &a.deviceMemory,
	}
}

// withStatus calls f with a new status and returns the error in it.
func (a *api) withStatus(f func(status handle)) error {
	status := a.newStatus()
	defer a.deleteStatus(status)
	f(status)
	if int32(new(caller).call(a.getCode, status)) == 0 {
		return nil
	}
	return errors.New(a.message(status))
}

// caller calls functions of one argument without allocating. One goroutine uses
// it at a time.
type caller struct{ argument [1]uintptr }

// call returns the function's result. Of a C int only the low half is valid.
func (c *caller) call(function, argument handle) uintptr {
	c.argument[0] = argument
	result, _, _ := purego.SyscallN(function, c.argument[:]...)
	return result
}

// bytesOf copies a TF_Buffer: a pointer and a length.
func bytesOf(buffer handle) []byte {
	head := (*struct {
		data *byte
		size uint64
	})(pointer(buffer))
	return append([]byte(nil), unsafe.Slice(head.data, head.size)...)
}

// pointer returns the address of a handle's memory, which is not on Go's heap.
func pointer(h handle) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&h)) }

// tensor is an input TF_Tensor and its memory.
type tensor struct {
	handle handle
	f32    []float32
}

// newTensor allocates a float32 tensor, which TensorFlow aligns such that a run
// uses it without a copy.
func (a *api) newTensor(dims ...int) (tensor, error) {
	sizes, n := make([]int64, max(1, len(dims))), 1
	for i, d := range dims {
		sizes[i], n = int64(d), n*d
	}
	t := tensor{handle: a.allocate(int32(float32Type), &sizes[0], int32(len(dims)), uint64(4*n))}
	if t.handle == 0 {
		return tensor{}, fmt.Errorf("tensorflow: cannot allocate a tensor of %v; use fewer candidates", dims)
	}
	t.f32 = unsafe.Slice((*float32)(pointer(new(caller).call(a.tensorData, t.handle))), n)
	return t, nil
}

func (a *api) free(t *tensor) {
	if t.handle != 0 {
		new(caller).call(a.deleteTensor, t.handle)
	}
	*t = tensor{}
}

// run is one kind of call of a session, with its input and output tensors and its operations
// without outputs. All calls reuse its memory. release frees the results of a call.
type run struct {
	caller
	feeds     []edge
	values    []handle
	fetches   []edge
	results   []handle
	targets   []handle
	arguments [12]uintptr
}

func newRun(feeds, fetches []edge) *run {
	return &run{
		feeds: feeds, values: make([]handle, len(feeds)),
		fetches: fetches, results: make([]handle, len(fetches)),
	}
}

// execute calls TF_SessionRun and reports whether it succeeded; status has the error.
func (r *run) execute(a *api, session, status handle) bool {
	r.arguments = [12]uintptr{
		session, 0,
		address(r.feeds), address(r.values), uintptr(len(r.feeds)),
		address(r.fetches), address(r.results), uintptr(len(r.fetches)),
		address(r.targets), uintptr(len(r.targets)), 0, status,
	}
	purego.SyscallN(a.sessionRun, r.arguments[:]...)
	runtime.KeepAlive(r)
	return int32(r.call(a.getCode, status)) == 0
}

// address returns the address of the first element, or 0 for a nil slice.
func address[T any](x []T) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(x))) }

// data returns the memory of a result.
func (r *run) data(a *api, i int) unsafe.Pointer { return pointer(r.call(a.tensorData, r.results[i])) }

// size returns the bytes of a result.
func (r *run) size(a *api, i int) int { return int(r.call(a.tensorSize, r.results[i])) }

// release frees the results.
func (r *run) release(a *api) {
	for i, h := range r.results {
		if h != 0 {
			r.call(a.deleteTensor, h)
		}
		r.results[i] = 0
	}
}
