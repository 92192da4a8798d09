// Test programs of the WebAssembly build that use a GPU: the device is there before main begins, where there is one.
(function () {
    function open() {
        addRunDependency('gpu');
        var done = function () { removeRunDependency('gpu'); };
        import(process.env.TERN_WEB_LIB + '/gpu.js')
            .then(function (library) { return library.Gpu.open({}); })
            .then(function (gpu) { Module['gpu'] = gpu; })
            .catch(function (error) { console.error('no GPU: ' + error.message); })
            .then(done);
    }
    Module['preRun'] = [].concat(Module['preRun'] || [], [open]);
})();
