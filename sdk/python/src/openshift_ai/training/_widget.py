"""The live view as a widget of Jupyter, with anywidget (the extra `notebook`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import anywidget
import traitlets

if TYPE_CHECKING:
    from ._status import JobStatus

_SCRIPT = """
function render({ model, el }) {
  const view = document.createElement("div");
  view.setAttribute("aria-live", "polite");
  const button = document.createElement("button");
  button.textContent = "Delete job";
  button.onclick = () => {
    if (confirm("Delete the job and everything that belongs to it?")) { model.send({ action: "delete" }); }
  };
  const draw = () => { view.innerHTML = model.get("content"); button.hidden = model.get("has_ended"); };
  model.on("change:content", draw);
  model.on("change:has_ended", draw);
  draw();
  el.append(view, button);
}
export default { render };
"""


class View(Protocol):
    """What is shown."""

    @property
    def status(self) -> JobStatus:
        """The job's newest status."""
        ...

    def _repr_html_(self) -> str: ...


class JobWidget(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
    """Shows HTML that Python writes and escapes; its button ends the job."""

    _esm = _SCRIPT
    content = traitlets.Unicode("").tag(sync=True)
    has_ended = traitlets.Bool(default_value=False).tag(sync=True)

    def __init__(self, view: View, delete: Callable[[], None]) -> None:
        super().__init__(content=view._repr_html_())
        self._delete = delete
        self.on_msg(self._asked)

    def redraw(self, view: View) -> None:
        """Shows the newest state."""
        self.content = view._repr_html_()
        self.has_ended = view.status.has_ended

    def _asked(self, _: Any, message: Any, __: Any) -> None:
        if isinstance(message, dict) and message.get("action") == "delete":
            self._delete()
