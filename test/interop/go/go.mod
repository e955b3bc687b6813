// Keeps the clients below out of the main module. Each is built with the go.VERSION.mod beside it.
module interop-clients

go 1.26.0
