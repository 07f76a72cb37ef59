// SPDX-License-Identifier: MIT
// The slider over K: redraws the rows of the picture as another model labels them. Without it the chosen K's are there.
(function () {
  "use strict";
  var numbers = JSON.parse(document.getElementById("numbers").textContent);
  var rows = document.getElementById("rows"), tags = document.getElementById("tags");
  var title = document.getElementById("rows-plot-t");
  var form = document.querySelector(".slider"), slider = document.getElementById("k");
  var shown = document.getElementById("k-shown");
  function element(name, attributes) {
    var made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (var key in attributes) made.setAttribute(key, attributes[key]);
    return made;
  }
  function markOf(model, label) { // many clusters keep no marks
    return model.marks.length ? model.marks[label] : label;
  }
  function drawRows(model) {
    var paths = {};
    model.labels.forEach(function (label, i) {
      var mark = markOf(model, label);
      var shape = numbers.shapes[mark % numbers.shapes.length];
      (paths[label] = paths[label] || []).push("M" + numbers.x[i] + " " + numbers.y[i] + shape);
    });
    rows.replaceChildren.apply(rows, Object.keys(paths).map(function (label) {
      return element("path", { class: "c" + markOf(model, +label) % numbers.colours, d: paths[label].join("") });
    }));
  }
  function drawTags(model) {
    tags.setAttribute("class", model.k > numbers.crowd ? "crowd" : "");
    tags.replaceChildren.apply(tags, model.tags.map(function (tag) {
      var group = element("g", { class: "tag", transform: "translate(" + tag[1] + " " + tag[2] + ")" });
      var text = element("text", { dy: ".36em" });
      text.textContent = tag[0];
      group.append(element("circle", { r: 9.5 }), text);
      return group;
    }));
  }
  function show(index) {
    var model = numbers.models[index];
    drawRows(model);
    drawTags(model);
    shown.textContent = "K = " + model.k + (index === numbers.best ? " (chosen)" : "");
    slider.setAttribute("aria-valuetext", shown.textContent);
    title.textContent = "Rows by the first two principal components, K = " + model.k;
  }
  if (numbers.models.length > 1) {
    slider.max = numbers.models.length - 1;
    slider.value = numbers.best;
    slider.addEventListener("input", function () { show(+slider.value); });
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    form.hidden = false;
    show(numbers.best);
  }
})();
