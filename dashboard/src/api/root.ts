// Where the service's paths begin: at this page's origin, or, within another dashboard, behind the path that its proxy has for them.

/** Empty, or a path without a slash at its end: `/_bff/training`. */
export const serviceRoot: string = import.meta.env.VITE_SERVICE_ROOT ?? "";
